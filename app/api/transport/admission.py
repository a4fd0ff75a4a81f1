"""Admission of requests before any route: check the sizes, then the key, then read the body."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api import errors
from app.api.deps import admit_operator, admit_principal, application_of
from app.api.errors import EncodedBody
from app.api.lease import LeaseWatch
from app.api.transport import complexity
from app.api.transport.intake import Body, Intake, IntakeLimits, replay_body
from app.api.transport.msgpack import MSGPACK
from app.domain.errors import BodyTooLarge, MnemaError
from app.usecases.offload import offload_if_large

LONGEST_LENGTH = 18
"""Maximum digits of a Content-Length."""
OPERATOR_PATHS = "/operator/"
"""The beginning of the paths that need the operator key."""


@dataclass(frozen=True, slots=True)
class PathLimits:
    """The limit of a body by path: `usual`, or the value of the first prefix in `paths` that the path begins with."""

    usual: int
    paths: Mapping[str, int] = field(default_factory=dict)

    def limit_for(self, path: str) -> int:
        """Return the limit of this path."""
        return next((limit for begin, limit in self.paths.items() if path.startswith(begin)), self.usual)


@dataclass(frozen=True, slots=True)
class UploadPaths:
    """Paths that match `pattern`, to which files are posted.

    A body may have `limit` bytes here, and the endpoint may set a lower limit. At most `in_memory` bytes of it count as
    memory.
    """

    pattern: re.Pattern[str]
    limit: int
    in_memory: int


@dataclass(frozen=True, slots=True)
class SpecialPaths:
    """Paths with their own rules.

    `open` paths need no key. The endpoints of `own` paths check the key themselves. For `streamed` paths, and for a
    POST to `uploads`, the key is checked here and the endpoint reads the body, with at most the given number of bytes
    in memory. `lasting` paths still work for a while when the database is away.
    """

    open: frozenset[str]
    own: frozenset[str]
    streamed: Mapping[str, int]
    uploads: UploadPaths
    lasting: frozenset[str] = frozenset()


class Admission:
    """ASGI middleware that refuses requests with 415, 413, 401, 429, 408 or 503 before any route sees them.

    Routes find the principal in `request.state.caller`, and the body in one piece. When a key ends, its running
    requests end too (`app.api.lease`).
    """

    def __init__(
        self, app: ASGIApp, limits: PathLimits, values: PathLimits, intake: IntakeLimits, paths: SpecialPaths
    ) -> None:
        """Take `limits`, the maximum bytes of a body, and `values`, the maximum number of values and keys in it."""
        self._app = app
        self._limits = limits
        self._values = values
        self._paths = paths
        self._intake = Intake(intake)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        uploads = self._paths.uploads
        limit = self._limits.limit_for(path)
        in_memory = self._paths.streamed.get(path)
        if scope["method"] == "POST" and uploads.pattern.fullmatch(path):
            limit = uploads.limit
            in_memory = uploads.in_memory
        async with LeaseWatch() as watch:
            scope["state"]["lease_watch"] = watch
            with self._intake.open_body(receive, limit, in_memory) as body:
                try:
                    forwarded = await self._admit_request(scope, path, body, streamed=in_memory is not None)
                except MnemaError as error:
                    await errors.error_response(error, Request(scope))(scope, receive, send)
                    return
                await self._app(scope, forwarded, send)

    async def _admit_request(self, scope: Scope, path: str, body: Body, *, streamed: bool) -> Receive:
        """Return the receive channel for the route. Raise a MnemaError if the request is refused."""
        request = Request(scope)
        has_body = _has_body(request.headers)
        if has_body:
            scope["state"]["body"] = body
            _check_headers(request.headers, body.limit)
        if path in self._paths.open or path in self._paths.own:
            return body.receive
        app = await application_of(request)
        if path.startswith(OPERATOR_PATHS):
            await admit_operator(app, request)
            return await self._receive_checked(request.headers, path, body) if has_body else body.receive
        grace_s = app.parts.policies.defaults.chat.outage_grace_s if path in self._paths.lasting else 0.0
        caller = request.state.caller = await admit_principal(app, request, grace_s)
        body.tenant_id = caller.tenant_id
        if streamed:
            self._intake.begin_upload(body)
            return body.receive
        received = await self._receive_checked(request.headers, path, body) if has_body else body.receive
        caller.require_live()
        return received

    async def _receive_checked(self, headers: Headers, path: str, body: Body) -> Receive:
        """Read the body and return a channel that replays it. Raise BodyTooComplex."""
        content = await body.read_all()
        await check_complexity(headers, content, self._values.limit_for(path))
        return replay_body(content, body.receive)


async def check_complexity(headers: Headers, content: bytes, most: int) -> None:
    """Raise BodyTooComplex if a JSON or MessagePack body, by its Content-Type, holds more than `most` values."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == MSGPACK:
        await offload_if_large(len(content), complexity.check_msgpack, content, most)
    elif kind.endswith("json"):
        await offload_if_large(len(content), complexity.check_json, content, most)


def _check_headers(headers: Headers, limit: int) -> None:
    """Raise EncodedBody if the body is compressed, BodyTooLarge if its Content-Length is above `limit` bytes."""
    encodings = ",".join(headers.getlist("content-encoding"))
    if any(encoding.strip().lower() not in ("", "identity") for encoding in encodings.split(",")):
        raise EncodedBody()
    length = headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > LONGEST_LENGTH or int(length) > limit:
        raise BodyTooLarge(f"at most {limit} bytes")


def _has_body(headers: Headers) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
