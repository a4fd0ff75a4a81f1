"""Documents of a source: their kinds, sections and chunks, the limits of parsing, and why a document is rejected."""
