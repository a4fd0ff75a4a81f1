"""The bases of the response models that the server and its clients do not share yet."""

from mnema_wire.bases import Answered

__all__ = ["Answered", "Stored"]


class Stored(Answered):
    """The base of models with stored contents. `withheld`: the key may not read, so texts and names are empty."""

    withheld: bool = False
