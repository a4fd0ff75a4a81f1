"""Sending of calls: a call's request and response, the retry rule, and the two senders."""

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import httpx
from mnema_wire.http_options import client_options
from mnema_wire.installed import ADDRESS, KEY, find_connection

from mnema_client.errors import (
    BrokenOff,
    CannotBeSent,
    CannotConnect,
    MnemaError,
    NoAnswer,
    NotConfigured,
    TimedOut,
    UnexpectedAnswer,
    error_from_problem,
)
from mnema_client.streams import open_stream

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
TRANSIENT = frozenset({429, 502, 503, 504})
NOT_DONE = frozenset({429})
"""Statuses with which the server says that it did nothing."""
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True)
class Retry:
    """The rule for retries of transient failures.

    A call is retried at least once, and then until `patience_s` seconds have passed since its first attempt.
    `attempts` limits the attempts; 1 means no retry. Waits double from `first_wait_s` up to `longest_wait_s`, and half
    of each is random. A server's `Retry-After` is kept; if it is longer than `longest_wait_s`, there is no retry.
    `first_contact_s` takes the place of `patience_s` where nothing listens and nothing has answered this client before.
    """

    attempts: int | None = None
    first_wait_s: float = 0.2
    longest_wait_s: float = 10.0
    patience_s: float = 30.0
    first_contact_s: float = 1.0

    def limit_to_first_contact(self) -> "Retry":
        """Return the rule for a server that has never answered and refuses the connection."""
        return replace(self, patience_s=min(self.patience_s, self.first_contact_s))

    def wait_s(self, attempt: int, asked_s: float | None = None, spent_s: float = 0.0) -> float | None:
        """Return the seconds to wait after attempt number `attempt` (from 1) failed, or None to give up.

        `asked_s`: the server's Retry-After. `spent_s`: the seconds since the first attempt began.
        """
        if (self.attempts is not None and attempt >= self.attempts) or (asked_s or 0) > self.longest_wait_s:
            return None
        grown: float = min(self.first_wait_s * 2 ** min(attempt - 1, 30), self.longest_wait_s)
        wait: float = max(grown * random.uniform(0.5, 1), asked_s or 0)
        return None if attempt > 1 and spent_s + wait > self.patience_s else wait


@dataclass(frozen=True)
class Connection:
    """The server's address, the API key and the time limit: for connecting, and for each wait for data."""

    base_url: str
    api_key: str = field(repr=False)
    timeout_s: float = 30.0
    retry: Retry = Retry()

    def __post_init__(self) -> None:
        if not _is_web_address(self.base_url):
            raise NotConfigured("base_url must be an http or https URL, such as http://127.0.0.1:8000")
        if not self.api_key or not all("!" <= c <= "~" for c in self.api_key):
            raise NotConfigured("the API key must be printable ASCII without spaces")

    def client_options(self) -> dict[str, Any]:
        """Return the options of an httpx client. On loopback it ignores the proxies of the environment."""
        return client_options(self.base_url, self.api_key, self.timeout_s)


def build_connection(
    base_url: str | None = None, api_key: str | None = None, *, timeout_s: float = 30.0, retry: Retry | None = None
) -> Connection:
    """Return a connection; the environment, or the server of `mnema up`, supplies what is not given.

    Raise NotConfigured if the address or the key is missing.
    """
    found = find_connection(base_url, api_key)
    if ADDRESS not in found or KEY not in found:
        raise NotConfigured("give base_url and api_key, set MNEMA_URL and MNEMA_API_KEY, or start a server: `mnema up`")
    return Connection(found[ADDRESS], found[KEY], timeout_s, retry or Retry())


def _is_web_address(url: str) -> bool:
    try:
        return urlsplit(url).scheme in ("http", "https")
    except ValueError:
        return False


@dataclass(frozen=True)
class Call(Generic[T_co]):
    """One request and the function that reads its response.

    `repeatable`: sending it twice has the effect of sending it once (a read, or a write with an Idempotency-Key). Other
    calls are retried only if the server certainly did nothing.
    """

    method: str
    path: str
    read: Callable[[httpx.Response], T_co]
    params: Mapping[str, Any] = field(default_factory=dict)
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    accepted: frozenset[int] = frozenset()
    """Error statuses that `read` understands."""
    once: bool = False
    """True if a failure is never retried."""

    def build_request(self, client: "httpx.Client | httpx.AsyncClient") -> httpx.Request:
        """Build the request for this client. Raise CannotBeSent."""
        if client.is_closed:
            raise CannotBeSent(f"{self.method} {self.path}: the client is closed")
        try:
            return client.build_request(
                self.method, self.path, params=self.params, content=self.content, headers=self.headers
            )
        except (httpx.InvalidURL, ValueError, TypeError) as error:
            raise CannotBeSent(f"{self.method} {self.path}: {error}") from error

    def pause_s(
        self, retry: Retry, attempt: int, failure: "httpx.Response | httpx.RequestError", spent_s: float = 0.0
    ) -> float:
        """Return the seconds to wait before a retry. Raise the failure as a MnemaError if there is no retry."""
        if isinstance(failure, httpx.Response):
            retryable = failure.status_code in TRANSIENT and (self.repeatable or failure.status_code in NOT_DONE)
            asked_s = _retry_after_s(failure)
            error = error_from_response(failure)
        else:
            retryable = isinstance(failure, httpx.TransportError) and (self.repeatable or isinstance(failure, NOT_SENT))
            asked_s = None
            error = error_without_response(failure, self)
        wait_s = retry.wait_s(attempt, asked_s, spent_s) if retryable and not self.once else None
        if wait_s is None:
            raise error
        return wait_s

    def read_answer(self, response: httpx.Response) -> T_co:
        """Return the result. Raise ApiError or UnexpectedAnswer."""
        if not self.is_accepted(response):
            raise error_from_response(response)
        try:
            return self.read(response)
        except (ValueError, KeyError, TypeError) as error:
            raise UnexpectedAnswer(
                f"the response to {self.method} {self.path} is not Mnema's",
                code="unexpected_answer",
                status=response.status_code,
                request_id=response.headers.get("X-Request-ID"),
            ) from error

    def is_accepted(self, response: httpx.Response) -> bool:
        """Tell whether `read` can read the response."""
        return response.is_success or response.status_code in self.accepted


def _retry_after_s(response: httpx.Response) -> float | None:
    header = response.headers.get("Retry-After", "")
    return float(header) if header.isdecimal() else None


def error_from_response(response: httpx.Response) -> MnemaError:
    """Return the error for a refusal whose body has been read."""
    try:
        problem = response.json()
        if response.is_error and isinstance(problem["code"], str) and "detail" in problem:
            return error_from_problem({**problem, "status": response.status_code})
    except (ValueError, KeyError, TypeError):
        pass
    if response.status_code in TRANSIENT:  # a proxy's response
        return error_from_problem(
            {"status": response.status_code, "code": "unavailable", "detail": response.reason_phrase}
        )
    where = response.headers.get("Location")
    detail = f"{response.status_code} {response.reason_phrase}{f' to {where}' if where else ''}: not from Mnema"
    return UnexpectedAnswer(detail, code="unexpected_answer", status=response.status_code)


def error_without_response(error: Exception, call: Call[Any]) -> MnemaError:
    """Return the error for a request without a response."""
    detail = f"{call.method} {call.path}: {str(error) or type(error).__name__}"
    if isinstance(error, httpx.ConnectError):
        return CannotConnect(detail, code="cannot_connect")
    if isinstance(error, httpx.TimeoutException):
        return TimedOut(detail, code="timed_out")
    return NoAnswer(detail, code="no_answer")


def error_from_break(error: Exception, call: Call[Any]) -> MnemaError:
    """Return the error for a stream that ended too early."""
    return BrokenOff(f"{call.method} {call.path}: {str(error) or type(error).__name__}", code="broken_off")


class Contact:
    """The retries of a sender: patient with a server that has answered it before, short with one that never has."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._answered = False

    def note_answer(self) -> None:
        """Remember that the server has answered."""
        self._answered = True

    def pause_s(
        self, call: Call[Any], attempt: int, failure: "httpx.Response | httpx.RequestError", spent_s: float
    ) -> float:
        """Return the seconds to wait before a retry. Raise the failure as a MnemaError if there is no retry."""
        retry = self._connection.retry
        if isinstance(failure, httpx.ConnectError) and not self._answered:
            retry = retry.limit_to_first_contact()
        try:
            return call.pause_s(retry, attempt, failure, spent_s)
        except CannotConnect as error:
            hint = f"is Mnema running at {self._connection.base_url}? Start it with `mnema up`, or correct MNEMA_URL"
            raise CannotConnect(f"{error.detail}; {hint}", code=error.code) from None


class Sender:
    """A synchronous sender. Threads may share it."""

    def __init__(self, connection: Connection) -> None:
        self._contact = Contact(connection)
        self._client = httpx.Client(**connection.client_options())

    def send(self, call: Call[T]) -> T:
        """Send the call; return its result. Raise MnemaError."""
        return call.read_answer(self._open_response(call))

    def stream_documents(self, call: Call[Any]) -> Iterator[Any]:
        """Yield the documents of a streamed response as they come. Once it has begun, there is no retry."""
        response = self._open_response(call, stream=True)
        documents = open_stream(response)
        try:
            for chunk in response.iter_bytes():
                yield from documents.feed_chunk(chunk)
        except httpx.RequestError as error:
            raise error_from_break(error, call) from error
        finally:
            response.close()
        documents.check_end()

    def _open_response(self, call: Call[Any], *, stream: bool = False) -> httpx.Response:
        began = time.monotonic()
        for attempt in itertools.count(1):
            failure: httpx.Response | httpx.RequestError
            try:
                failure = self._client.send(call.build_request(self._client), stream=stream)
                self._contact.note_answer()
                if call.is_accepted(failure):
                    return failure
                failure.read()
            except httpx.RequestError as error:
                failure = error
            time.sleep(self._contact.pause_s(call, attempt, failure, time.monotonic() - began))
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class AsyncSender:
    """An asynchronous sender. It opens new connections when its caller runs in another event loop."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._contact = Contact(connection)
        self._open_in: tuple[asyncio.AbstractEventLoop, httpx.AsyncClient] | None = None

    async def send(self, call: Call[T]) -> T:
        """Send the call; return its result. Raise MnemaError."""
        return call.read_answer(await self._open_response(call))

    async def stream_documents(self, call: Call[Any]) -> AsyncIterator[Any]:
        """Yield the documents of a streamed response as they come. Once it has begun, there is no retry."""
        response = await self._open_response(call, stream=True)
        documents = open_stream(response)
        try:
            async for chunk in response.aiter_bytes():
                for document in documents.feed_chunk(chunk):
                    yield document
        except httpx.RequestError as error:
            raise error_from_break(error, call) from error
        finally:
            await response.aclose()
        documents.check_end()

    async def _open_response(self, call: Call[Any], *, stream: bool = False) -> httpx.Response:
        began = time.monotonic()
        for attempt in itertools.count(1):
            failure: httpx.Response | httpx.RequestError
            try:
                failure = await self._send_once(call, stream=stream)
                self._contact.note_answer()
                if call.is_accepted(failure):
                    return failure
                await failure.aread()
            except httpx.RequestError as error:
                failure = error
            spent_s = time.monotonic() - began
            await asyncio.sleep(self._contact.pause_s(call, attempt, failure, spent_s))
        raise AssertionError("unreachable")

    async def _send_once(self, call: Call[Any], *, stream: bool) -> httpx.Response:
        """Send one request; return its response. Raise httpx's errors."""
        client = self._current_client()
        return await client.send(call.build_request(client), stream=stream)

    def _current_client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._open_in is None or self._open_in[0] is not loop:  # connections belong to one event loop
            self._open_in = loop, httpx.AsyncClient(**self._connection.client_options())
        return self._open_in[1]

    async def close(self) -> None:
        """Close the connections of this event loop."""
        if self._open_in is not None:
            (loop, client), self._open_in = self._open_in, None
            if loop is asyncio.get_running_loop():
                await client.aclose()
