"""Turn logs: the whole record of a turn (a blob), and the snapshot of it that views read (the index)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from mnema_wire.blocks import format_time

from app.domain.turn_memory.fingerprint import Fingerprint

USER_CHARS: Final = 600
"""The most characters of the user's text in a snapshot."""
ASSISTANT_CHARS: Final = 280
SUMMARY_CHARS: Final = 280
ELLIPSIS: Final = "…"


@dataclass(frozen=True, slots=True)
class TurnLog:
    """The record of one turn. `fingerprint` and the items of `feedbacks` are JSON, as they are stored.

    `extra` holds whatever else the client keeps with the turn.
    """

    turn_id: str
    made_at: datetime
    user_text: str = ""
    assistant_text: str = ""
    summary: str = ""
    fingerprint: Mapping[str, Any] | None = None
    feedbacks: Sequence[Mapping[str, Any]] = ()
    extra: Mapping[str, Any] | None = None

    def with_fingerprint(self, fingerprint: Fingerprint) -> "TurnLog":
        """Return the log with a fingerprint in place of the one before."""
        return replace(self, fingerprint=fingerprint.as_json())

    def with_feedbacks(self, feedbacks: Sequence[Mapping[str, Any]]) -> "TurnLog":
        """Return the log with these reactions, oldest first."""
        return replace(self, feedbacks=tuple(feedbacks))

    def as_payload(self) -> dict[str, Any]:
        """Return the payload of the blob."""
        print_ = self.fingerprint or {}
        texts = (("user", self.user_text), ("assistant", self.assistant_text), ("summary", self.summary))
        entries = [{"ts": format_time(self.made_at), "area": area, "text": text} for area, text in texts if text]
        entries += [{"ts": given["ts"], "area": "feedback", "text": given["text"]} for given in self.feedbacks]
        return {
            "turn_log": {
                "turn_id": self.turn_id,
                "ts": format_time(self.made_at),
                "user_text": self.user_text,
                "assistant_text": self.assistant_text,
                "summary": self.summary,
                "state": {"fingerprint": self.fingerprint},
                "entries": entries,
                "feedbacks": [dict(given) for given in self.feedbacks],
                "extra": self.extra,
            },
            "turn_summary": {
                "objective": print_.get("objective", ""),
                "prefs": {name: print_.get(name, []) for name in ("assertions", "exceptions")},
                "facts": print_.get("facts", []),
                "assistant_signals": print_.get("assistant_signals", []),
            },
        }

    def as_snapshot(self) -> str:
        """Return the index JSON, from which views are built without reading a blob."""
        snapshot = {
            "turn_id": self.turn_id,
            "ts": format_time(self.made_at),
            "objective": (self.fingerprint or {}).get("objective", ""),
            "user": _shorten_text(self.user_text, USER_CHARS),
            "assistant": _shorten_text(self.assistant_text, ASSISTANT_CHARS),
            "summary": _shorten_text(self.summary, SUMMARY_CHARS),
            "feedbacks": len(self.feedbacks),
        }
        return json.dumps(snapshot, ensure_ascii=False)


def parse_turn_log(payload: Mapping[str, Any], made_at: datetime) -> TurnLog:
    """Return the turn log of a stored payload."""
    log = payload["turn_log"]
    return TurnLog(
        log["turn_id"],
        made_at,
        log["user_text"],
        log["assistant_text"],
        log["summary"],
        log["state"]["fingerprint"],
        tuple(log["feedbacks"]),
        log["extra"],
    )


def _shorten_text(text: str, most: int) -> str:
    """Return the text on one line, cut at `most` characters."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most and len(text) <= 4 * most else line[: most - 1].rstrip() + ELLIPSIS
