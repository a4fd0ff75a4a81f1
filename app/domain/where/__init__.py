"""The filter language `where`: a tree of typed comparisons, parsed once (docs/filters.md)."""
