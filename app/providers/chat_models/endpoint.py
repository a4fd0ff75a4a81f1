"""The address of a chat model's endpoint, with its key, headers and extra fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from openai import AsyncOpenAI, Omit

from app.providers.bounded_http import BoundedClient

MAX_ANSWER: Final = 4 << 20
"""The largest response in bytes. Our answers take a few KB, long lists of models some hundred."""
AZURE: Final = ".azure.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An endpoint. `base_url`: the part before /chat/completions; its query, such as `?api-version=`, is kept.

    `headers` are sent with each request, before those of the client. `extra_body`: fields that are added to each
    request for an answer, or replace those of the same name.
    """

    base_url: str
    api_key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    extra_body: Mapping[str, Any] = field(default_factory=dict)

    def open_client(self, timeout_s: float) -> AsyncOpenAI:
        """Return a client that retries nothing and reads no more than MAX_ANSWER bytes."""
        parts = urlsplit(self.base_url)
        headers: dict[str, Any] = dict(self.headers)
        if (parts.hostname or "").endswith(AZURE) and self.api_key and "/openai/v1" not in parts.path:
            headers = {"api-key": self.api_key, "Authorization": Omit()} | headers
        return AsyncOpenAI(
            api_key=self.api_key or "none",  # the client refuses an empty key
            base_url=parts._replace(query="", fragment="").geturl(),
            default_query=dict(parse_qsl(parts.query)) or None,
            default_headers=headers or None,
            timeout=timeout_s,
            max_retries=0,
            http_client=BoundedClient(MAX_ANSWER),
        )
