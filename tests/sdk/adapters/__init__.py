"""Adapters of the Python package for agent frameworks."""
