"""Turn memory over HTTP."""
