"""The header `X-Mnema-Client`: the program that writes for a person. History names it as the actor."""

from typing import Annotated, Literal

from fastapi import Header
from pydantic import WithJsonSchema

ClientHeader = Annotated[
    # a pattern, because openapi-python-client leaves out every operation that has an enum in a header
    Annotated[Literal["mirror", "import"], WithJsonSchema({"type": "string", "pattern": "^(mirror|import)$"})] | None,
    Header(
        alias="X-Mnema-Client",
        description="`mirror` or `import`: the actor in history and the origin of new memories. It allows nothing more",
    ),
]
