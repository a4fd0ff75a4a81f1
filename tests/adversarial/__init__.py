"""Hostile texts for the functions and the patterns that read a caller's text. Tests run its programs."""
