"""Reading of another product's HTTP API, page by page, with retries and bounded answers."""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import httpx
from mnema_wire.http_options import is_loopback

from mnema_cli.imports.records import Bad, SourceFailed
from mnema_cli.imports.sending import LONGEST_WAIT_S, TRANSIENT_STATUSES, find_advice, read_wait

RETRIES = 5
PAGE = 100
"""Records that a page asks for."""
MAX_ANSWER_BYTES = 32 << 20
REFUSES_ALL = (401, 402, 403)
"""Statuses that concern the key, and so every further request."""


class AnswerFailed(Exception):
    """An answer that cannot be used. The other addresses of the source may still be read."""


class Pages:
    """A reader of an HTTP API. It never follows redirects, so that the key stays with the host it was given for."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        try:
            host = httpx.URL(url)
            client = httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=not is_loopback(url))
        except (httpx.InvalidURL, ValueError) as error:
            raise SourceFailed(f"the address or the key cannot be used: {error}") from None
        if host.scheme not in ("http", "https") or not host.host or host.userinfo or host.query:
            raise SourceFailed("the address must be http:// or https:// with a host, without a name, key or query")
        self._client = client

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def read_json(self, method: str, path: str, body: Any = None, **params: object) -> Any:
        """Return the JSON of an answer. Raise AnswerFailed, or SourceFailed if other addresses would fail too."""
        failure = ""
        wait = 0.0
        status = None
        asked = {name: str(value) for name, value in params.items() if value is not None}
        for attempt in range(RETRIES):
            time.sleep(max(attempt * attempt * 0.2, wait))
            try:
                with self._client.stream(method, path, params=asked, json=body) as response:
                    if response.status_code == 200:
                        return _read_answer(response, path)
                    wait = read_wait(response)
                    failure = f"{path}: {response.status_code} {response.reason_phrase}"
            except httpx.TransportError as error:
                failure = f"{path}: {str(error) or type(error).__name__}"
                status = None
                continue
            status = response.status_code
            if status in REFUSES_ALL:
                break
            if status not in TRANSIENT_STATUSES:
                raise AnswerFailed(failure)
            if wait > LONGEST_WAIT_S:
                break
        raise SourceFailed(f"{self._client.base_url.host}: {failure}", advice=find_advice(status))

    def read_by_cursor(
        self, place: str, method: str, path: str, body: Any = None, **params: object
    ) -> Iterator[dict[str, Any] | Bad]:
        """Yield the items of a list whose pages name their `next_cursor`. A page that fails ends the list as Bad."""
        cursor = None
        while True:
            try:
                page = self.read_json(method, path, body, page_size=PAGE, cursor=cursor, **params)
                yield from list_items(page, "items", path, place)
            except AnswerFailed as error:
                yield Bad(place, str(error))
                return
            following = page.get("next_cursor")
            if not following or following == cursor:
                return
            cursor = following

    def read_by_number(self, place: str, method: str, path: str, body: Any = None) -> Iterator[dict[str, Any] | Bad]:
        """Yield the items of a list with numbered pages, `{items, page, pages}`. A page that fails ends it as Bad."""
        number = 1
        while True:
            try:
                page = self.read_json(method, path, body, page=number, size=PAGE)
                yield from list_items(page, "items", path, place)
            except AnswerFailed as error:
                yield Bad(place, str(error))
                return
            if not page.get("items") or number >= (page.get("pages") or number + 1):
                return
            number += 1


def list_items(page: Any, name: str, path: str, place: str) -> list[dict[str, Any] | Bad]:
    """Return the items of a page, those that are no objects as Bad. Raise AnswerFailed if it has no such list."""
    if not isinstance(page, dict) or not isinstance(page.get(name) or [], list):
        raise AnswerFailed(f"{path}: the answer has no list {name!r}")
    return [
        item if isinstance(item, dict) else Bad(f"{place}, item {number}", "not a JSON object")
        for number, item in enumerate(page.get(name) or [], 1)
    ]


def quote_id(value: object) -> str:
    """Return an id as one part of a path."""
    return quote(str(value), safe="", errors="backslashreplace")


def _read_answer(response: httpx.Response, path: str) -> Any:
    content = bytearray()
    for part in response.iter_bytes():
        content += part
        if len(content) > MAX_ANSWER_BYTES:
            raise AnswerFailed(f"{path}: the answer is larger than {MAX_ANSWER_BYTES >> 20} MiB")
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise AnswerFailed(f"{path}: the answer is not JSON") from None
