"""What can go wrong, as a tree: `MnemaError` above all; what the server refused is an `ApiError` by its status."""

from collections.abc import Mapping
from typing import Any


class MnemaError(Exception):
    """Anything that went wrong between this program and Mnema.

    `code`: stable, for programs (`category_not_allowed`); `status`: of HTTP, None when there was no answer; `detail`:
    for people; `request_id`: quote it when you report a fault.
    """

    def __init__(self, detail: str, *, code: str, status: int | None = None, request_id: str | None = None) -> None:
        self.code = code
        self.status = status
        self.detail = detail
        self.request_id = request_id
        super().__init__(f"{code}: {detail}")


class CannotBeSent(MnemaError, ValueError):
    """A value that no request can hold, such as half of a surrogate pair, NaN or an object: nothing was sent."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, code="cannot_be_sent")


class NoAnswer(MnemaError):
    """The server could not be reached, or went away before it answered: a write may be stored or not."""


class TimedOut(NoAnswer):
    """The server did not answer in time: a write may be stored or not."""


class BrokenOff(NoAnswer):
    """A streamed answer ended before its end; what came of it is true and incomplete."""


class UnexpectedAnswer(MnemaError):
    """What answered does not speak as Mnema does: another server, or a proxy's page."""


class ApiError(MnemaError):
    """A refusal. `problem` is the server's document (RFC 9457)."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        self.problem = dict(problem)
        super().__init__(
            str(problem.get("detail", "")),
            code=str(problem.get("code", "error")),
            status=int(problem.get("status", 0)),
            request_id=problem.get("request_id"),
        )


class InvalidRequest(ApiError, ValueError):
    """400, 413, 415, 422: the request is wrong; sending it again does not help."""


class Unauthenticated(ApiError):
    """401: the API key is missing, unknown, revoked or expired."""


class NotAllowed(ApiError):
    """403: the key lacks a scope, or the agent may not use a category."""

    @property
    def categories(self) -> list[str]:
        """With `category_not_allowed`: the refused ones."""
        return list(self.problem.get("categories") or ())


class NotFound(ApiError):
    """404: nothing of that name in this tenant, or not this key's to see."""


class Conflict(ApiError):
    """409: the state of the memory, its text or the idempotency key is in the way."""


class VersionConflict(ApiError):
    """412: somebody changed it since the version that was named."""


class LimitReached(ApiError):
    """429: a rate limit or a quota."""

    @property
    def retry_after(self) -> int:
        """Seconds to wait."""
        return int(self.problem.get("retry_after") or 0)


class ServerError(ApiError):
    """500 and above: the server's fault."""


class Unavailable(ServerError):
    """502, 503, 504: for now; a write may be stored or not."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: InvalidRequest,
    401: Unauthenticated,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    412: VersionConflict,
    413: InvalidRequest,
    415: InvalidRequest,
    422: InvalidRequest,
    429: LimitReached,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def error_from_problem(problem: Mapping[str, Any]) -> ApiError:
    """The error for a problem document."""
    status = int(problem.get("status", 0))
    return _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)(problem)
