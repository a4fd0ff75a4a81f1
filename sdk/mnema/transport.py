"""How a call is sent: one description of it, one reading of its answer, one rule for sending it again, two senders."""

import asyncio
import itertools
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import httpx

from mnema.errors import BrokenOff, CannotBeSent, MnemaError, NoAnswer, TimedOut, UnexpectedAnswer, error_from_problem

T = TypeVar("T")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
TRANSIENT = frozenset({429, 502, 503, 504})
NOT_DONE = frozenset({429})
"""Statuses that say that nothing was done."""
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True)
class Retry:
    """When what failed for now is sent again: until `patience_s` have passed since it was first sent, but once in any
    case, and `attempts` times in all if that is given. Waits grow from `first_wait_s` by two up to `longest_wait_s`,
    half of each by chance; a server that says `Retry-After` is waited for as long as it says, or not at all if that is
    longer than `longest_wait_s`. `attempts=1`: never."""

    attempts: int | None = None
    first_wait_s: float = 0.2
    longest_wait_s: float = 10.0
    patience_s: float = 30.0

    def wait_s(self, attempt: int, asked_s: float | None = None, spent_s: float = 0.0) -> float | None:
        """How long to wait after attempt number `attempt` (from 1) failed, in seconds; None: give up.

        `spent_s`: since the first attempt began.
        """
        if (self.attempts is not None and attempt >= self.attempts) or (asked_s or 0) > self.longest_wait_s:
            return None
        grown: float = min(self.first_wait_s * 2 ** min(attempt - 1, 30), self.longest_wait_s)
        wait: float = max(grown * random.uniform(0.5, 1), asked_s or 0)
        return None if attempt > 1 and spent_s + wait > self.patience_s else wait


@dataclass(frozen=True)
class Connection:
    """Where the server is and as whom to ask. `timeout_s`: for connecting and for each silence of the server."""

    base_url: str
    api_key: str = field(repr=False)
    timeout_s: float = 30.0
    retry: Retry = Retry()

    def __post_init__(self) -> None:
        if urlsplit(self.base_url).scheme not in ("http", "https"):
            raise ValueError("base_url is an http or https address, such as http://127.0.0.1:8000")
        if not self.api_key or not all("!" <= c <= "~" for c in self.api_key):
            raise ValueError("the API key is printable ASCII without blanks")

    def client_options(self) -> dict[str, Any]:
        """Of an httpx client; on loopback past any proxy that the environment names."""
        return {
            "base_url": self.base_url.rstrip("/"),
            "headers": {"Authorization": f"Bearer {self.api_key}"},
            "timeout": self.timeout_s,
            "trust_env": urlsplit(self.base_url).hostname not in LOOPBACK,
        }


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request and how its answer is read.

    `repeatable`: sending it twice does what sending it once does (a read, or a write with an Idempotency-Key); what is
    not is sent again only when the server surely did nothing.
    """

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    params: Mapping[str, Any] = field(default_factory=dict)
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    accepted: frozenset[int] = frozenset()
    """Statuses of refusals that `read` understands."""

    def build_request(self, client: "httpx.Client | httpx.AsyncClient") -> httpx.Request:
        """For this client; raises CannotBeSent."""
        try:
            return client.build_request(
                self.method, self.path, params=self.params, content=self.content, headers=self.headers
            )
        except (httpx.InvalidURL, ValueError, TypeError) as error:
            raise CannotBeSent(f"{self.method} {self.path}: {error}") from error

    def pause_s(
        self, retry: Retry, attempt: int, failure: "httpx.Response | httpx.RequestError", spent_s: float = 0.0
    ) -> float:
        """How long to wait before it is sent again, in seconds; raises the failure as a MnemaError when it is not."""
        if isinstance(failure, httpx.Response):
            again = failure.status_code in TRANSIENT and (self.repeatable or failure.status_code in NOT_DONE)
            asked_s, error = _retry_after_s(failure), error_from_response(failure)
        else:
            again = isinstance(failure, httpx.TransportError) and (self.repeatable or isinstance(failure, NOT_SENT))
            asked_s, error = None, error_without_response(failure, self)
        wait_s = retry.wait_s(attempt, asked_s, spent_s) if again else None
        if wait_s is None:
            raise error
        return wait_s

    def read_answer(self, response: httpx.Response) -> T:
        """What it says; raises ApiError or UnexpectedAnswer."""
        if not self.is_accepted(response):
            raise error_from_response(response)
        try:
            return self.read(response)
        except (ValueError, KeyError, TypeError) as error:
            raise UnexpectedAnswer(
                f"{self.method} {self.path} was not answered as Mnema does",
                code="unexpected_answer",
                status=response.status_code,
                request_id=response.headers.get("X-Request-ID"),
            ) from error

    def is_accepted(self, response: httpx.Response) -> bool:
        """Whether it is what was asked for."""
        return response.is_success or response.status_code in self.accepted


def _retry_after_s(response: httpx.Response) -> float | None:
    asked = response.headers.get("Retry-After", "")
    return float(asked) if asked.isdecimal() else None


def error_from_response(response: httpx.Response) -> MnemaError:
    """The error that a refusal is; its body has been read."""
    try:
        problem = response.json()
        if response.is_error and isinstance(problem["code"], str) and "detail" in problem:
            return error_from_problem({**problem, "status": response.status_code})
    except (ValueError, KeyError, TypeError):
        pass
    if response.status_code in TRANSIENT:  # of a proxy
        return error_from_problem(
            {"status": response.status_code, "code": "unavailable", "detail": response.reason_phrase}
        )
    where = response.headers.get("Location")
    detail = f"{response.status_code} {response.reason_phrase}{f' to {where}' if where else ''}: not as Mnema answers"
    return UnexpectedAnswer(detail, code="unexpected_answer", status=response.status_code)


def error_without_response(error: Exception, call: Call[Any]) -> MnemaError:
    """The error for a request without an answer."""
    said = f"{call.method} {call.path}: {str(error) or type(error).__name__}"
    if isinstance(error, httpx.TimeoutException):
        return TimedOut(said, code="timed_out")
    return NoAnswer(said, code="no_answer")


def error_from_break(error: Exception, call: Call[Any]) -> MnemaError:
    """The error for a stream that ends before its end."""
    return BrokenOff(f"{call.method} {call.path}: {str(error) or type(error).__name__}", code="broken_off")


class JsonLines:
    """Bytes in, JSON documents out, one a line. Only a line feed ends a line: texts may hold other separators."""

    def __init__(self) -> None:
        self._rest = b""

    def feed_chunk(self, chunk: bytes) -> list[Any]:
        """The documents that are whole now."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [_parse_line(line) for line in lines if line.strip()]

    def check_end(self) -> None:
        """Raises BrokenOff when a line was not ended."""
        if self._rest.strip():
            raise BrokenOff("the last line has no end", code="broken_off")


def _parse_line(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise UnexpectedAnswer("a line of the answer is not JSON", code="unexpected_answer") from error


class Sender:
    """Sends calls and waits for them. Threads may share it."""

    def __init__(self, connection: Connection) -> None:
        self._retry = connection.retry
        self._client = httpx.Client(**connection.client_options())

    def send(self, call: Call[T]) -> T:
        """The answer; raises MnemaError."""
        return call.read_answer(self._open_response(call))

    def stream_documents(self, call: Call[Any]) -> Iterator[Any]:
        """The documents of a streamed answer as they come; nothing is sent again once it has begun."""
        response = self._open_response(call, stream=True)
        lines = JsonLines()
        try:
            for chunk in response.iter_bytes():
                yield from lines.feed_chunk(chunk)
        except httpx.RequestError as error:
            raise error_from_break(error, call) from error
        finally:
            response.close()
        lines.check_end()

    def _open_response(self, call: Call[Any], *, stream: bool = False) -> httpx.Response:
        began = time.monotonic()
        for attempt in itertools.count(1):
            failure: httpx.Response | httpx.RequestError
            try:
                failure = self._client.send(call.build_request(self._client), stream=stream)
                if call.is_accepted(failure):
                    return failure
                failure.read()
            except httpx.RequestError as error:
                failure = error
            time.sleep(call.pause_s(self._retry, attempt, failure, time.monotonic() - began))
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Put the connections away."""
        self._client.close()


class AsyncSender:
    """The same without waiting in a thread. It follows its caller from one event loop to the next."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._open_in: tuple[asyncio.AbstractEventLoop, httpx.AsyncClient] | None = None

    async def send(self, call: Call[T]) -> T:
        """The answer; raises MnemaError."""
        return call.read_answer(await self._open_response(call))

    async def stream_documents(self, call: Call[Any]) -> AsyncIterator[Any]:
        """The documents of a streamed answer as they come; nothing is sent again once it has begun."""
        response = await self._open_response(call, stream=True)
        lines = JsonLines()
        try:
            async for chunk in response.aiter_bytes():
                for document in lines.feed_chunk(chunk):
                    yield document
        except httpx.RequestError as error:
            raise error_from_break(error, call) from error
        finally:
            await response.aclose()
        lines.check_end()

    async def _open_response(self, call: Call[Any], *, stream: bool = False) -> httpx.Response:
        began = time.monotonic()
        for attempt in itertools.count(1):
            failure: httpx.Response | httpx.RequestError
            try:
                failure = await self._send_once(call, stream=stream)
                if call.is_accepted(failure):
                    return failure
                await failure.aread()
            except httpx.RequestError as error:
                failure = error
            spent_s = time.monotonic() - began
            await asyncio.sleep(call.pause_s(self._connection.retry, attempt, failure, spent_s))
        raise AssertionError("unreachable")

    async def _send_once(self, call: Call[Any], *, stream: bool) -> httpx.Response:
        """One request and its answer; raises httpx's errors."""
        client = self._current_client()
        return await client.send(call.build_request(client), stream=stream)

    def _current_client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._open_in is None or self._open_in[0] is not loop:  # connections cannot leave the loop they began in
            self._open_in = loop, httpx.AsyncClient(**self._connection.client_options())
        return self._open_in[1]

    async def close(self) -> None:
        """Put the connections away."""
        if self._open_in is not None:
            (loop, client), self._open_in = self._open_in, None
            if loop is asyncio.get_running_loop():
                await client.aclose()
