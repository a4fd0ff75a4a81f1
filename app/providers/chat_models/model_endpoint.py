"""The address of a chat model's endpoint, with its key, headers and extra fields."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import httpx2
from openai import AsyncOpenAI

from app.providers.api_keys import FixedKey, KeySource
from app.providers.bounded_http import BoundedClient

MAX_ANSWER: Final = 4 << 20
"""The largest response in bytes. Our answers take a few KB, long lists of models some hundred."""
AZURE: Final = ".azure.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEndpoint:
    """An endpoint. `base_url`: the part before /chat/completions; its query, such as `?api-version=`, is kept.

    `headers` are sent with each request, before those of the client. `extra_body`: fields that are added to each
    request for an answer, or replace those of the same name.
    """

    base_url: str
    api_key: KeySource | str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    extra_body: Mapping[str, Any] = field(default_factory=dict)

    def open_client(self, timeout_s: float) -> AsyncOpenAI:
        """Return a client that retries nothing and reads no more than MAX_ANSWER bytes."""
        parts = urlsplit(self.base_url)
        key = FixedKey(self.api_key) if isinstance(self.api_key, str) else self.api_key
        takes_header = (parts.hostname or "").endswith(AZURE) and "/openai/v1" not in parts.path

        async def read_key() -> str:
            return key.current_key() or "none"  # the client refuses an empty key

        return AsyncOpenAI(
            api_key=read_key,
            base_url=parts._replace(query="", fragment="").geturl(),
            default_query=dict(parse_qsl(parts.query)) or None,
            default_headers=dict(self.headers) or None,
            timeout=timeout_s,
            max_retries=0,
            http_client=BoundedClient(MAX_ANSWER, auth=_AzureKey(key, self.headers) if takes_header else None),
        )


class _AzureKey(httpx2.Auth):
    """The header `api-key` of Azure's older addresses, in place of Authorization, unless `headers` have their own."""

    def __init__(self, key: KeySource, headers: Mapping[str, str]) -> None:
        self._key = key
        self._given = {name.lower() for name in headers}

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Set the header of a request."""
        if (key := self._key.current_key()) and "api-key" not in self._given:
            request.headers["api-key"] = key
        if "authorization" not in self._given:
            request.headers.pop("Authorization", None)
        yield request
