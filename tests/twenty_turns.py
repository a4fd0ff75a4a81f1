"""A conversation of 20 turns and another one of the same user: as artifacts to store, and as rows of a view."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from mnema_wire.blocks import format_time

from app.domain.turn_memory.active_set import ActiveSet
from app.domain.turn_memory.artifacts import ArtifactChange, ArtifactKind, Conversation
from app.domain.turn_memory.fingerprint import Fingerprint, read_fingerprint
from app.domain.turn_memory.turn_state import TurnLog
from app.domain.turn_memory.views import ContextRows

DIAGRAM: Final = Conversation("maya", "diagram")
TRAVEL: Final = Conversation("maya", "travel")
START: Final = datetime(2026, 1, 20, 9, 0, tzinfo=UTC)
NOW: Final = datetime(2026, 1, 26, 15, 15, 30, tzinfo=UTC)
CURRENT: Final = "turn_20"
SELECTED: Final = ("turn_18", "turn_03", "turn_12")
LAST_TURNS: Final = 10
STEPS: Final = (
    ("Fix the diagram", "mermaid, diagram", "format=mermaid:must:objective", "", "tool=Kroki:high"),
    ("Name the services", "services", "naming=kebab case:prefer", "abbreviations=any:avoid", ""),
    ("Choose the colours", "colours, diagram", "", "colour=red:do_not:artifact", "screen=beamer:medium"),
    ("Plan the review", "review", "length=30 minutes:prefer:objective", "", "team.size=7:high"),
    ("Write the summary", "summary", "tone=plain:must", "jargon=any:avoid:thread", "readers=managers:medium"),
)


def make_turns() -> list[tuple[TurnLog, Fingerprint]]:
    """Return the turns of the conversation, oldest first, each with its fingerprint."""
    return [_make_turn(number) for number in range(1, 21)]


def list_changes(*, reconciled: bool) -> list[ArtifactChange]:
    """Return the artifacts of the conversation before the reconciler has run in turn 20, or after.

    Before, turn 20 has the user's text alone. The logs have addresses of blobs `test:<turn id>`.
    """
    changes = []
    for log, fingerprint in make_turns():
        if log.turn_id == CURRENT and not reconciled:
            changes.append(_log_change(replace(log, assistant_text="", summary="")))
        else:
            changes += [_log_change(log.with_fingerprint(fingerprint)), fingerprint_change(fingerprint)]
    changes += [_reaction_change(reaction) for reaction in list_feedback()]
    if reconciled:
        changes.append(active_set_change(make_active_set()))
    return changes


def list_travel() -> list[ArtifactChange]:
    """Return the artifacts of the other conversation: one turn with two signals of the assistant."""
    return [fingerprint_change(_make_travel())]


def make_active_set() -> ActiveSet:
    """Return the active set after the reconciler: three turns are selected, the first eight are reconciled."""
    return ActiveSet((), SELECTED, make_turns()[7][1].made_at, 12, "Diagram of the services")


def view_rows(*, reconciled: bool) -> ContextRows:
    """Return the rows of every view of turn 20, as the database answers them."""
    turns = make_turns()
    stored = [fingerprint.as_json() for _log, fingerprint in turns[: 20 if reconciled else 19]][::-1]
    snapshots = [json.loads(change.text or "") for change in list_changes(reconciled=reconciled) if _is_log(change)]
    chosen = make_active_set() if reconciled else None
    delta = 12 if reconciled else LAST_TURNS
    with_signals = [turn for turn in stored if turn["assistant_signals"]]
    travel = _make_travel().as_json() | {"conversation_id": TRAVEL.conversation_id}
    return ContextRows(
        active_set=chosen,
        logs=snapshots[-2 : -2 - LAST_TURNS : -1],
        window=stored[:delta],
        named=[turn for turn in stored if chosen and turn["turn_id"] in SELECTED],
        current_log=snapshots[-1],
        current=stored[0] if reconciled else None,
        feedback=list_feedback()[::-1],
        signals=[*with_signals, travel],
    )


def list_feedback() -> list[dict[str, Any]]:
    """Return the reactions, oldest first: one of a machine, two of the user."""
    given: Sequence[tuple[int, str, str, str, Mapping[str, Any]]] = (
        (5, "user", "ok", "Good summary.", {}),
        (12, "machine", "not_ok", "The user\nrepeated the question.", {"confidence": 0.8}),
        (19, "user", "not_ok", "Still too [LONG]\n[TURN MEMORIES]", {"objective": "Plan the review, part 19"}),
    )
    return [
        {"turn_id": _name(turn), "ts": format_time(_moment(turn) + timedelta(minutes=2)), "origin": origin}
        | {"reaction": reaction, "text": text, **more}
        for turn, origin, reaction, text, more in given
    ]


def fingerprint_change(fingerprint: Fingerprint) -> ArtifactChange:
    """Return the artifact of a fingerprint."""
    return ArtifactChange(
        ArtifactKind.fingerprint,
        fingerprint.turn_id,
        json.dumps(fingerprint.as_json(), ensure_ascii=False),
        fingerprint.made_at,
        fingerprint.turn_id,
        tags=fingerprint.tags(),
    )


def active_set_change(chosen: ActiveSet) -> ArtifactChange:
    """Return the artifact of an active set."""
    return ArtifactChange(ArtifactKind.active_set, "", json.dumps(chosen.as_json()), NOW)


def _make_turn(number: int) -> tuple[TurnLog, Fingerprint]:
    objective, topics, assertions, exceptions, facts = STEPS[(number - 1) % len(STEPS)]
    name, made_at = _name(number), _moment(number)
    signals = [{"key": "product.export", "value": f"PDF in {number} sizes", "severity": "recommend"}]
    raw = {
        "objective": f'{objective}, "part {number}"',
        "topics": topics.split(", "),
        "assertions": _read_signals(assertions),
        "exceptions": _read_signals(exceptions),
        "facts": _read_signals(facts),
        "assistant_signals": signals if number % 6 == 0 else [],
    }
    again = " Again." * (100 if number == 19 else 0)
    user = f"Please {objective.lower()} for part {number}.\n\n[CURRENT TURN]\nThanks.{again}"
    log = TurnLog(name, made_at, user, f"Part {number} is done.\n- it has 3 boxes", f"{objective} for part {number}.")
    return log, read_fingerprint(name, made_at, raw)


def _make_travel() -> Fingerprint:
    signals = [
        {"key": "product.rail_pass", "value": "Rail pass", "severity": "strong_promote", "applies_to": "Portugal"},
        {"key": "product.insurance", "value": {"days": 14}, "severity": "mention", "scope": "thread"},
    ]
    raw = {"objective": "Plan a journey", "assistant_signals": signals}
    return read_fingerprint("trip_1", START - timedelta(days=40), raw)


def _read_signals(text: str) -> list[dict[str, str]]:
    """Return the signals of `key=value:severity:scope`."""
    if not text:
        return []
    key, _, rest = text.partition("=")
    value, severity, *scope = rest.split(":")
    return [{"key": key, "value": value, "severity": severity, "scope": scope[0] if scope else "conversation"}]


def _log_change(log: TurnLog) -> ArtifactChange:
    uri, kind = f"test:{log.turn_id}", ArtifactKind.turn_log
    return ArtifactChange(
        kind, log.turn_id, log.as_snapshot(), log.made_at, log.turn_id, tags=[kind.value], hosted_uri=uri
    )


def _reaction_change(reaction: Mapping[str, Any]) -> ArtifactChange:
    text = "[turn.log.reaction] " + json.dumps(reaction, ensure_ascii=False)
    place = f"{reaction['origin']}:{reaction['turn_id']}"
    made_at = datetime.fromisoformat(reaction["ts"])
    tags = [f"origin:{reaction['origin']}"]
    return ArtifactChange(ArtifactKind.reaction, place, text, made_at, reaction["turn_id"], tags=tags)


def _is_log(change: ArtifactChange) -> bool:
    return change.kind is ArtifactKind.turn_log


def _name(number: int) -> str:
    return f"turn_{number:02d}"


def _moment(number: int) -> datetime:
    return START + (number - 1) * timedelta(hours=7, minutes=31) if number < 20 else NOW - timedelta(seconds=30)
