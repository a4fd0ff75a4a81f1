"""Errors in the words of people: a title, and the reason with what to do."""

from mnema_client import (
    CannotBeSent,
    InvalidRequest,
    LimitReached,
    MnemaError,
    NoAnswer,
    NotAllowed,
    NotFound,
    UnexpectedAnswer,
    VersionConflict,
)

from console.texts import reveal_text

LONGEST_REASON = 600


def explain_error(error: Exception) -> tuple[str, str]:
    """Return a title and a reason. The reason quotes the API; it may be shown as text only."""
    if not isinstance(error, MnemaError):
        return "Something went wrong", f"{type(error).__name__}. The console's log has more."
    reason = reveal_text(error.detail[:LONGEST_REASON]).replace("`", "")  # which marks names in the API's texts
    if error.request_id:
        reason += f" (request {error.request_id})"
    return _title(error), reason


def _title(error: MnemaError) -> str:
    if isinstance(error, NotFound) and error.code == "not_found":
        return "Not found"
    if error.code == "unknown_agent":
        return "No such agent"
    if isinstance(error, LimitReached):
        return f"Too many requests. Try again in {error.retry_after or 1} s"
    titles: list[tuple[type[MnemaError], str]] = [
        (NotAllowed, "Your key may not do this"),
        (NotFound, "Not found"),
        (VersionConflict, "Somebody else changed this meanwhile"),
        (NoAnswer, "The API does not answer"),
        (UnexpectedAnswer, "The answer is not from Mnema"),
        (InvalidRequest, "The request is not valid"),
        (CannotBeSent, "The request is not valid"),
    ]
    return next((title for kind, title in titles if isinstance(error, kind)), "The API refused this")
