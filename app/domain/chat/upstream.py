"""The chat endpoint that a tenant's conversations are forwarded to."""

from dataclasses import dataclass, field
from typing import Final, Literal

UpstreamDialect = Literal["openai", "anthropic"]
"""The APIs that upstreams speak. A tenant and the installation have one upstream for each."""
OPENAI: Final = "openai"
ANTHROPIC: Final = "anthropic"


@dataclass(frozen=True, slots=True)
class Upstream:
    """A chat endpoint: the URL before `/chat/completions` or `/messages`, and the key.

    `api_key` is empty if the endpoint needs none. `trusted`: the operator set it for the whole installation, so private
    addresses are allowed. `authorization`: a caller's own credentials, sent instead of the key.
    `tenant`: the connections of one tenant are its own, so that its calls cannot take those of others.
    """

    base_url: str
    api_key: str = field(default="", repr=False)
    trusted: bool = False
    authorization: str = field(default="", repr=False)
    tenant: str = field(default="", compare=False)
    dialect: UpstreamDialect = OPENAI
