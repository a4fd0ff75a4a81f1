"""The wire of Mnema: the models, limits and texts that the server and its clients share."""
