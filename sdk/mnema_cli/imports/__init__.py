"""Imports of other products' memories and conversations: readers, and one run that sends what they find."""
