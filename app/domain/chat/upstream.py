"""The chat endpoint that a tenant's conversations are forwarded to."""

from dataclasses import dataclass, field
from typing import Literal

Api = Literal["openai", "anthropic"]
"""The APIs of upstreams. Each API has an upstream of its own."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """An OpenAI-compatible endpoint: the URL before `/chat/completions`, and the key.

    `api_key` is empty if the endpoint needs none. `trusted`: the operator set it for the whole installation, so private
    addresses are allowed. `authorization`: the whole value of the header Authorization, sent instead of the key.
    `tenant`: the connections of one tenant are its own, so that its calls cannot take those of others.
    """

    base_url: str
    api_key: str = field(default="", repr=False)
    trusted: bool = False
    authorization: str = field(default="", repr=False)
    tenant: str = field(default="", compare=False)
