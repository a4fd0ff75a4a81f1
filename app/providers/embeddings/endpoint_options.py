"""The form in which an endpoint wants texts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from app.domain.errors import ConfigError

OWN_MEMBERS: Final = ("input", "model", "dimensions", "encoding_format")
"""The members of a request that other settings decide."""


@dataclass(frozen=True, slots=True)
class TextRole:
    """The form of queries, or of the texts that are stored: a prefix, and members of the request such as input_type."""

    prefix: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOptions:
    """The form of requests to an endpoint.

    - `send_dimensions`: whether a request names the dimension. None: if the model is known to take it, or if its
      vectors turn out longer.
    - `window`: the tokens that the model reads of a text, with the prefix; a longer text is cut. 0: not known.
    - `batch_items`, `batch_tokens`: the most texts and estimated tokens of a request.
    """

    query: TextRole = field(default_factory=TextRole)
    passage: TextRole = field(default_factory=TextRole)
    send_dimensions: bool | None = None
    encoding: Literal["float", "base64"] = "float"
    window: int = 0
    batch_items: int = 128
    batch_tokens: int = 100_000

    def __post_init__(self) -> None:
        for name, role in (("QUERY", self.query), ("PASSAGE", self.passage)):
            if taken := [member for member in OWN_MEMBERS if member in role.body]:
                raise ConfigError(f"MNEMA_EMBEDDING_{name}_BODY: must not have {', '.join(taken)}")
