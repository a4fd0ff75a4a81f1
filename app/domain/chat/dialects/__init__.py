"""The chat APIs that Mnema speaks, one dialect a module."""
