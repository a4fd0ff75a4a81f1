"""Bodies of /sources."""
