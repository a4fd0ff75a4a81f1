"""A comparison of chat clients: what each sends and returns directly and through Mnema."""
