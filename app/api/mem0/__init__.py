"""The face of mem0's clients: the paths and bodies of mem0's REST API, translated to Mnema's use-cases."""
