"""The tree of errors: `MnemaError` is the base; refusals of the server are an `ApiError` by status."""

from collections.abc import Mapping
from typing import Any


class MnemaError(Exception):
    """Any failure between this program and Mnema.

    `code`: stable, for programs (`category_not_allowed`). `status`: the HTTP status, None if there was no response.
    `detail`: the explanation for people. `request_id`: quote it when you report a fault.
    """

    def __init__(self, detail: str, *, code: str, status: int | None = None, request_id: str | None = None) -> None:
        self.code = code
        self.status = status
        self.detail = detail
        self.request_id = request_id
        super().__init__(f"{code}: {detail}")


class CannotBeSent(MnemaError, ValueError):
    """A value that no request can hold, such as half of a surrogate pair, NaN or a wrong id. Nothing was sent."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, code="cannot_be_sent")


class NotConfigured(MnemaError, ValueError):
    """The address or the key of the server is missing or malformed."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, code="not_configured")


class NoAnswer(MnemaError):
    """No response: the server could not be reached, or broke the connection. A write may be stored or not."""


class CannotConnect(NoAnswer):
    """Nothing listens at the address, or the connection cannot be made. Nothing was sent."""


class TimedOut(NoAnswer):
    """No response in time. A write may be stored or not."""


class BrokenOff(NoAnswer):
    """A streamed response that ended too early. What it delivered is correct but incomplete."""


class UnexpectedAnswer(MnemaError):
    """A response that is not from Mnema, such as another server's or a proxy's page."""


class ApiError(MnemaError):
    """A refusal by the server. `problem` is its problem document (RFC 9457)."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        self.problem = dict(problem)
        super().__init__(
            str(problem.get("detail", "")),
            code=str(problem.get("code", "error")),
            status=int(problem.get("status", 0)),
            request_id=problem.get("request_id"),
        )


class InvalidRequest(ApiError, ValueError):
    """400, 413, 415, 422: the request is invalid. To send it again does not help."""


class Unauthenticated(ApiError):
    """401: the API key is missing, unknown, revoked or expired."""


class NotAllowed(ApiError):
    """403: the key lacks a scope, or the agent may not use a category."""

    @property
    def categories(self) -> list[str]:
        """The refused categories, with code `category_not_allowed`."""
        return list(self.problem.get("categories") or ())


class NotFound(ApiError):
    """404: the tenant has nothing of this name, or this key may not see it."""


class Conflict(ApiError):
    """409: the memory's state, an equal text or the idempotency key prevents it."""


class NoChatModel(Conflict):
    """409 `no_chat_model`: the server has no chat model."""


class CursorOfOtherDatabase(ApiError):
    """410: the cursor is of a database before a restore. List all again, and begin without a cursor."""


class VersionConflict(ApiError):
    """412: the memory changed since the given version."""


class LimitReached(ApiError):
    """429: a rate limit or a quota is used up."""

    @property
    def retry_after(self) -> int:
        """The seconds to wait; 0 if the server names none."""
        return int(self.problem.get("retry_after") or 0)


class ServerError(ApiError):
    """500 and above: a fault of the server."""


class Unavailable(ServerError):
    """502, 503, 504: temporarily unavailable. A write may be stored or not."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: InvalidRequest,
    401: Unauthenticated,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    410: CursorOfOtherDatabase,
    412: VersionConflict,
    413: InvalidRequest,
    415: InvalidRequest,
    422: InvalidRequest,
    429: LimitReached,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}
_BY_CODE: dict[str, type[ApiError]] = {"no_chat_model": NoChatModel}


def error_from_problem(problem: Mapping[str, Any]) -> ApiError:
    """Return the error for a problem document."""
    status = int(problem.get("status", 0))
    by_status = _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    return _BY_CODE.get(str(problem.get("code")), by_status)(problem)
