"""The limits of the time that a test may take."""
