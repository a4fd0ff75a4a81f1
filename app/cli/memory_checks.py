"""The checks of a server on a memory that `mnema import` makes before it sends anything."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from typing import Any

from app.domain.errors import MnemaError
from app.domain.ids import check_identifier, check_json, past_moment
from app.domain.text_rules import TextLimits, check_text

IDENTIFIERS = ("user_id", "thread_id", "agent_id", "run_id", "actor_id", "role", "category")
IMPORTANCES = range(1, 6)


def find_refusal(body: Mapping[str, Any], limits: TextLimits, trim: bool, now: datetime) -> str | None:
    """Return why the server would refuse to write a memory, None if it looks right. The server knows more than this."""
    name = ""
    try:
        check_text(body["text"], body.get("type") or "semantic", limits, trim)
        for name in IDENTIFIERS:
            if name in body:
                _check_name(body[name])
        name = "created_at"
        past_moment(_parse_moment(body.get(name)), now)
        name = "metadata"
        check_json(body.get(name, {}))
        name = "importance"
        _check_importance(body.get(name))
    except MnemaError as error:
        return f"{error.code}: {name and f'{name}: '}{error.detail}"
    except (TypeError, ValueError, OverflowError):
        return f"invalid_request: {name}: {body.get(name)!r} is not valid"
    return None


def _check_name(value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError
    check_identifier(value)


def _check_importance(value: Any) -> None:
    """Raise ValueError if the server would refuse an importance. It reads 4.0 as 4."""
    if value is not None and (isinstance(value, bool) or value not in IMPORTANCES):
        raise ValueError


def _parse_moment(value: Any) -> datetime | None:
    """Return the time that the server would read. Raise ValueError or TypeError."""
    if value is None:
        return None
    if len(value) == len("2026-01-31"):
        return datetime.combine(date.fromisoformat(value), time(), UTC)
    moment = datetime.fromisoformat(value)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
