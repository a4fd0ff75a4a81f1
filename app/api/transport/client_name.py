"""The header `X-Mnema-Client`: the program that writes for a person. History names it as the actor."""

from typing import Annotated, Literal

from fastapi import Header

ClientHeader = Annotated[
    Literal["mirror"] | None,
    Header(alias="X-Mnema-Client", description="`mirror`: history names the actor `mirror`. It allows nothing more"),
]
