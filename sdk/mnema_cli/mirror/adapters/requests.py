"""Requests of a mirror to the server: repeated while the server is away or busy, and refused with a clear sentence."""

import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import httpx

from mnema_cli.mirror.rules.problems import StoreAway, StoreUnusable

Wait: TypeAlias = Callable[[float], None]
"""A function that waits for some seconds. It may raise to end the run."""

BUSY: Final = (429, 502, 503, 504)
PROBLEM: Final = "application/problem+json"
QUOTA: Final = "quota_exceeded"
FIRST_WAIT_S: Final = 0.25
LONGEST_WAIT_S: Final = 10.0
FAILURES: Final = 3
"""Attempts of a request that the server answers with 500."""


class MirrorRequests:
    """A client that repeats a request until the server answers it, for at most `patience_s` seconds of waiting."""

    def __init__(self, client: httpx.Client, wait: Wait, patience_s: float) -> None:
        self._client = client
        self._wait = wait
        self._patience_s = patience_s

    def send(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        """Return the server's answer, which may be a refusal. Raise StoreAway or StoreUnusable."""
        waited = 0.0
        attempt = 0
        while True:
            attempt += 1
            try:
                response = self._client.request(method, path, **arguments)
            except httpx.TransportError as error:
                problem = f"{self._client.base_url}: {str(error) or type(error).__name__}"
                pause = 0.0
            except (httpx.InvalidURL, httpx.DecodingError, ValueError) as error:
                raise StoreUnusable(f"the request cannot be sent: {error}") from error
            else:
                if not _is_temporary(response, attempt):
                    return _check_answer(response)
                problem = describe_refusal(response)
                pause = _retry_after(response)
            pause = max(pause, min(FIRST_WAIT_S * 2 ** min(attempt - 1, 10), LONGEST_WAIT_S))
            if waited + pause > self._patience_s:
                raise StoreAway(problem)
            self._wait(pause)
            waited += pause

    def read(self, path: str, **params: Any) -> dict[str, Any]:
        """Return the JSON object of a GET. Raise StoreUnusable if the server refuses it, or StoreAway."""
        response = self.send("GET", path, params={name: value for name, value in params.items() if value is not None})
        if not response.is_success:
            raise StoreUnusable(describe_refusal(response))
        return json_of(response)


def _is_temporary(response: httpx.Response, attempt: int) -> bool:
    if response.status_code == 500:
        return attempt < FAILURES
    return response.status_code in BUSY and code_of(response) != QUOTA


def _check_answer(response: httpx.Response) -> httpx.Response:
    """Return an answer of Mnema. Raise StoreUnusable for a refused key, or for an answer of something else."""
    if response.status_code == 401:
        raise StoreUnusable(describe_refusal(response))
    if not response.is_success and not response.headers.get("Content-Type", "").startswith(PROBLEM):
        raise StoreUnusable(
            f"{response.url.copy_with(path='/', query=None)} is not a Mnema server: "
            f"{response.status_code} {response.reason_phrase}"
        )
    return response


def _retry_after(response: httpx.Response) -> float:
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isascii() and value.isdecimal() and len(value) < 9 else 0.0


def json_of(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON object in a body. Raise StoreUnusable."""
    try:
        found = response.json()
    except (ValueError, RecursionError) as error:
        raise StoreUnusable(f"{response.url}: the answer is no JSON; is this a Mnema server?") from error
    if not isinstance(found, dict):
        raise StoreUnusable(f"{response.url}: the answer is no JSON object; is this a Mnema server?")
    return found


def changes_of(response: httpx.Response) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the events of a page of changes, and its last line. Raise StoreUnusable."""
    try:
        *events, end = [json.loads(line) for line in response.content.split(b"\n") if line.strip()]
        return events, {"tenant_id": end["tenant_id"], "next_cursor": end["next_cursor"], "more": end["more"]}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreUnusable(f"{response.url}: the answer is no page of changes; is this a Mnema server?") from error


def code_of(response: httpx.Response) -> str:
    """Return the code of a problem, empty if the answer is none."""
    if not response.headers.get("Content-Type", "").startswith(PROBLEM):
        return ""
    return str(json_of(response).get("code", ""))


def describe_refusal(response: httpx.Response) -> str:
    """Return a refusal as one line: its code and detail, else its status."""
    if code := code_of(response):
        return f"{code}: {json_of(response).get('detail', '')}"
    return f"{response.status_code} {response.reason_phrase}"
