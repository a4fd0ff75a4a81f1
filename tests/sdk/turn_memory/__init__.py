"""Turn memory of the Python package."""
