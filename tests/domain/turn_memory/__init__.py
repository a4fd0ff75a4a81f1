"""Turn memory without a database."""
