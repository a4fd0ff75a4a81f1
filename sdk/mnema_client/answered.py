"""The bases of all response models."""

from pydantic import BaseModel, ConfigDict


class Answered(BaseModel):
    """The base of all response models. Pydantic before 2.10 warns of fields such as `model_label` if not told."""

    model_config = ConfigDict(extra="ignore", frozen=True, protected_namespaces=())


class Stored(Answered):
    """The base of models with stored contents. `withheld`: the key may not read, so texts and names are empty."""

    withheld: bool = False
