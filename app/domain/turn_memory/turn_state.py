"""The state of one turn, from which a change is computed, and the rows that the change writes.

A turn log is the whole record of a turn (a blob), with the snapshot of it that views read (the index).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from mnema_wire.blocks import format_time
from mnema_wire.turn_limits import MAX_TITLE

from app.domain.jobs.job import JobKind, NewJob
from app.domain.turn_memory.active_set import ActiveSet, active_set_row
from app.domain.turn_memory.artifacts import WHOLE_CONVERSATION, Artifact, ArtifactChange, ArtifactKind, Conversation
from app.domain.turn_memory.fingerprint import Fingerprint

TITLE_CHARS: Final = 60
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


@dataclass(frozen=True, slots=True)
class TurnState:
    """The stored state of a turn and of its conversation. A change returns a copy with the new values.

    - `stored`: the index rows by kind, as they were read. A row of another version is never overwritten.
    - `tags`: tags of the fingerprint besides its own.
    - `others`: further artifacts to store or delete with the change.
    """

    turn_id: str
    now: datetime
    log: TurnLog | None = None
    fingerprint: Fingerprint | None = None
    active: ActiveSet = field(default_factory=ActiveSet)
    track_id: str | None = None
    tags: tuple[str, ...] = ()
    stored: tuple[Artifact, ...] = ()
    others: Sequence[ArtifactChange] = ()

    def of_kind(self, kind: ArtifactKind) -> Artifact | None:
        """Return the stored row of a kind, or None."""
        return next((artifact for artifact in self.stored if artifact.kind is kind), None)

    def with_fingerprint(self, fingerprint: Fingerprint, tags: Sequence[str] = ()) -> "TurnState":
        """Return the state with a fingerprint, in the log too. A turn's first one counts in the active set."""
        log = self.log or TurnLog(self.turn_id, fingerprint.made_at)
        count = self.active.since_last_reconcile + (self.fingerprint is None)
        active = replace(self.active, since_last_reconcile=count)
        changed = replace(self, log=log.with_fingerprint(fingerprint), fingerprint=fingerprint, tags=tuple(tags))
        return replace(changed, active=active).with_title(fingerprint.conversation_title)

    def with_title(self, title: str) -> "TurnState":
        """Return the state with a conversation title; an empty one changes nothing."""
        return replace(self, active=replace(self.active, conversation_title=title)) if title else self


def changed_rows(before: TurnState, after: TurnState, log_uri: str | None) -> list[ArtifactChange]:
    """Return the rows that a change writes. `log_uri` is the blob of the changed log, None if it did not change."""
    rows = list(after.others)
    if log_uri is not None and after.log is not None:
        rows.append(
            _turn_row(before, after, ArtifactKind.turn_log, after.log.as_snapshot(), after.log.made_at, log_uri)
        )
    if after.fingerprint is not None and (after.fingerprint, after.tags) != (before.fingerprint, before.tags):
        text = json.dumps(after.fingerprint.as_json(), ensure_ascii=False)
        printed = _turn_row(before, after, ArtifactKind.fingerprint, text, after.fingerprint.made_at)
        rows.append(replace(printed, tags=list(dict.fromkeys((*after.fingerprint.tags(), *after.tags)))))
    if after.active != before.active:
        row = before.of_kind(ArtifactKind.active_set)
        rows.append(active_set_row(after.active, row.version if row else 0, before.now))
    if before.of_kind(ArtifactKind.start) is None and (after.log or after.fingerprint) is not None:
        text = json.dumps(_start(after), ensure_ascii=False)
        start = _turn_row(before, after, ArtifactKind.start, text, before.now)  # its words go with the turn
        rows.append(replace(start, place=WHOLE_CONVERSATION, track_id=None))
    return rows


def reconcile_jobs(
    before: TurnState, after: TurnState, conversation: Conversation, every: int
) -> list[tuple[NewJob, str]]:
    """Return the job that reconciles the buckets, with its slot, once for each `every` fingerprints since the last
    time. Return nothing if `every` is 0.
    """
    count = after.active.since_last_reconcile
    if not every or count // every == before.active.since_last_reconcile // every:
        return []
    row = before.of_kind(ArtifactKind.active_set)
    return [reconcile_job(conversation, row.version if row else 0, before.now)]


def reconcile_job(conversation: Conversation, version: int, now: datetime) -> tuple[NewJob, str]:
    """Return the job that reconciles the buckets of a conversation, with its slot.

    A change of the active set queues at most one: `version` is the version of the active set that it replaces. Time
    tells the versions of a conversation from those of a later one of the same name.
    """
    user_id, conversation_id = conversation
    change = json.dumps([*conversation, version, now.isoformat()])
    job = NewJob(JobKind.memory_reconcile, user_id, {"conversation_id": conversation_id})
    return job, hashlib.sha256(change.encode()).hexdigest()


def _turn_row(
    before: TurnState, after: TurnState, kind: ArtifactKind, text: str, made_at: datetime, uri: str | None = None
) -> ArtifactChange:
    row = before.of_kind(kind)
    return ArtifactChange(
        kind,
        after.turn_id,
        text,
        made_at,
        turn_id=after.turn_id,
        track_id=after.track_id,
        tags=[kind.value],
        hosted_uri=uri,
        expect=row.version if row else 0,
    )


def _start(state: TurnState) -> dict[str, str]:
    """Return the index of `conv.start`: a title from the first words of the conversation."""
    words = (state.log.user_text if state.log else "") or (state.fingerprint.objective if state.fingerprint else "")
    line = " ".join(words[: 4 * MAX_TITLE].split())
    title = line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1].rstrip() + "…"
    return {"conversation_title": state.active.conversation_title or title}
