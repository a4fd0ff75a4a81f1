"""The reasons why a turn became no memory, by code (`docs/operations.md`), and the verdicts of its readers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from app.domain.memory.merge_bands import MergeBands

Band = Literal["same", "unsure", "different"]
READERS: Final = ("commands", "capture", "multi_fact", "episode", "summary", "insight", "workflow")
REASONS: Final[Mapping[str, str]] = {
    "not_a_turn": "This memory is no turn: it was written directly, and nothing is drawn from it.",
    "turn_deleted": "The turn is deleted: nothing is drawn from it.",
    "no_job": "No job of this turn is stored: it was not stored by POST /turns or chat, or its jobs have expired.",
    "job_paused": "A job of this turn waits because its kind is paused: mnema jobs resume.",
    "job_queued": "A job of this turn is queued: no worker has started it yet.",
    "job_running": "A job of this turn is running.",
    "job_retrying": "A job of this turn failed and will be tried again.",
    "job_waits_for_tokens": "A job of this turn waits for the next day's tokens of the chat model.",
    "job_dead": "A job of this turn failed on every attempt: mnema jobs replay runs it again.",
    "no_model": "No chat model is configured: only plain statements are captured.",
    "rules_only": "The turn was sent with `learn: rules`: only plain statements are captured.",
    "capture_off": "Capture of plain statements is switched off: per_turn is 0.",
    "capture_too_long": "The text is too long for the capture of plain statements, or has several paragraphs.",
    "capture_nothing": "The text has no plain statement that a rule of capture.yaml matches.",
    "capture_no_category": "The agent of the turn may not write the categories of the plain statements.",
    "capture_cap": "The user has as many captured facts of that day as the policy allows.",
    "capture_quota": "The tenant's quota of memories is used up.",
    "gone": "The turn was deleted before it was read.",
    "not_a_users": "The turn is not the user's own: only a user's own turns are read for facts.",
    "somebody_else": "Another actor than the user spoke the turn.",
    "model_short": "The text is too short for the chat model, and does not plainly describe its speaker.",
    "model_no_category": "The agent of the turn may not write the categories that the chat model is offered.",
    "model_cap": "The turn or its user has as many facts of that day as the policy allows.",
    "deferred": "More facts were found than a turn or a day may add: a job of the next day adds the others.",
    "model_spent": "The chat model's tokens of the day were spent.",
    "model_nothing": "The chat model found no durable fact in the text.",
    "model_refused": "The facts that the chat model found broke a rule: see `refused` of the reading `multi_fact`.",
    "known": "What the turn says was known: no memory changed.",
    "not_stored": "A fact that was found was not stored: see `facts` for the reason of each.",
    "proposed": "What the turn says became a proposal that the user decides.",
    "nothing_visible": "Nothing was remembered that this key may see.",
    "deleted_since": "What was remembered is deleted by now, or its record has expired.",
}
"""The sentence for each code."""
_SHARED: Final = frozenset({"gone", "not_a_users", "somebody_else", "known", "not_stored", "proposed"})
"""Reasons that have the same code for both readers of a turn."""
_COUNTS: Final = ("candidates", "known", "forgotten", "proposed", "tokens", "deferred")
_NO_NEWS: Final = frozenset({"done", "no_model"})
"""Reasons of a reader that say nothing about the turn: it was read before, or the reader is not there."""


@dataclass(frozen=True, slots=True)
class TurnJob:
    """A job on a turn. `paused`: jobs of its kind do not start. `report` holds counts and codes, no text.

    `is_later_round`: the job is for facts that an earlier one deferred.
    """

    id: UUID
    kind: str
    state: str
    attempts: int
    next_run: datetime
    last_error: str | None
    report: Mapping[str, Any] | None
    updated_at: datetime
    paused: bool
    is_later_round: bool


@dataclass(frozen=True, slots=True)
class SettledFact:
    """A fact of a turn and its result. `number`: its place in the turn; None for a memory that the turn deleted.

    `memory_id`, `category`, `state`, `text` and `quote` are those of the memory as it is now; None if it is gone or
    was never stored. `similarity`: the best cosine among the memories compared.
    """

    reader: str
    number: int | None
    action: str
    reason: str | None
    memory_id: UUID | None
    matched_id: str | None
    similarity: float | None
    category: str | None
    state: str | None
    text: str | None
    quote: str | None


@dataclass(frozen=True, slots=True)
class Reading:
    """A reader's verdict on a turn or its thread. `why`: the reason why it stored nothing; None if it stored something.

    Counts that the reader did not report are 0. `refused`: items of the model's answer that broke a rule, by rule.
    `vetoed`: changes of memories that the model wanted and the turn does not support, by reason. `deferred`: facts
    beyond a limit of the turn or the day, which another day's job stores.
    """

    reader: str
    why: str | None
    facts: int = 0
    candidates: int = 0
    known: int = 0
    forgotten: int = 0
    proposed: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    tokens: int = 0
    vetoed: Mapping[str, int] = field(default_factory=dict)
    deferred: int = 0


@dataclass(frozen=True, slots=True)
class Rejection:
    """A rule that kept turns or candidate facts out of memory, with their number.

    `code` is a key of REASONS for turns, and the code of the broken rule for facts.
    """

    reader: str
    unit: Literal["turns", "facts"]
    code: str
    number: int


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The state of a job on a turn. `error`: the code of its last error. `is_later_round`: as of TurnJob."""

    state: str
    paused: bool
    error: str | None
    is_later_round: bool = False


def read_reports(reports: Sequence[Mapping[str, Any]]) -> list[Reading]:
    """Return the readings in reports of a turn's jobs; the last report on a reader counts."""
    found: dict[str, Reading] = {}
    for report in reports:
        for reader in READERS:
            if isinstance(part := report.get(reader), Mapping):
                found[reader] = _reading_of(reader, part)
    return [found[reader] for reader in READERS if reader in found]


def _reading_of(reader: str, part: Mapping[str, Any]) -> Reading:
    counts = {name: int(part.get(name) or 0) for name in _COUNTS}
    facts = sum(int(part.get(name) or 0) for name in ("facts", "created", "updated"))
    refused, vetoed = (
        {str(rule): int(number) for rule, number in (part.get(name) or {}).items()} for name in ("refused", "vetoed")
    )
    why = part.get("why")
    if reader == "capture" and not facts:
        why = "proposed" if counts["proposed"] and why in (None, "nothing") else why or "known"
    if reader == "multi_fact" and not facts:
        why = why or _model_verdict(counts, refused)
    return Reading(reader, why, facts, refused=refused, vetoed=vetoed, **counts)


def _model_verdict(counts: Mapping[str, int], refused: Mapping[str, int]) -> str | None:
    """Return the reason why the model's answer changed nothing; None if it deleted a memory."""
    if counts["forgotten"]:
        return None
    if counts["candidates"]:
        return "known" if counts["known"] else "not_stored"
    if counts["proposed"]:
        return "proposed"
    return "refused" if refused else "nothing"


def find_band(similarity: float | None, bands: MergeBands) -> Band | None:
    """Return the band of a similarity: `unsure` needs a rule or a judge to say whether two texts are the same fact."""
    if similarity is None:
        return None
    if similarity >= bands.auto_update:
        return "same"
    return "unsure" if similarity >= bands.check_low else "different"


def count_rejections(reports: Iterable[tuple[str, Mapping[str, Any], int]]) -> list[Rejection]:
    """Return the rejections in reports, the most frequent first.

    Each report has a reader, the part of the job's report about it, and the number of equal reports.

    The details of capture are not in the reports, so an overlong text counts as `capture_nothing`.
    """
    counts: Counter[tuple[str, Literal["turns", "facts"], str]] = Counter()
    for reader, part, number in reports:
        reading = _reading_of(reader, part)
        for code in reading_reasons([reading], capture_detail=None):
            counts[reader, "turns", code] += number
        for rule, items in reading.refused.items():
            counts[reader, "facts", rule] += number * items
    return sort_rejections(Rejection(*place, number) for place, number in counts.items())


def sort_rejections(rejections: Iterable[Rejection]) -> list[Rejection]:
    """Return rejections with the most frequent first."""
    return sorted(rejections, key=lambda one: (-one.number, one.reader, one.unit, one.code))


def job_reasons(jobs: Sequence[JobStatus]) -> list[str]:
    """Return the codes of unfinished jobs, each once."""
    codes = [_job_reason(job) for job in jobs]
    return list(dict.fromkeys(code for code in codes if code is not None))


def _job_reason(job: JobStatus) -> str | None:
    if job.state == "queued" and not job.paused and job.error is not None:
        return "job_waits_for_tokens" if job.error == "tokens_spent" else "job_retrying"
    if job.state == "queued" and not job.paused and job.is_later_round:
        return "deferred"
    if job.state == "queued":
        return "job_paused" if job.paused else "job_queued"
    return {"running": "job_running", "dead": "job_dead"}.get(job.state)


def reading_reasons(readings: Sequence[Reading], *, capture_detail: str | None) -> list[str]:
    """Return the codes of what readers of the turn itself found, each once.

    `capture_detail`: the code that explains why capture found nothing, instead of `capture_nothing`.
    """
    codes: list[str] = []
    for reading in readings:
        if reading.reader not in ("capture", "multi_fact"):
            continue
        if reading.proposed:
            codes.append("proposed")
        if reading.why is None or reading.why in _NO_NEWS:
            continue
        codes.append(_reader_code(reading, capture_detail))
    return list(dict.fromkeys(code for code in codes if code in REASONS))


def _reader_code(reading: Reading, capture_detail: str | None) -> str:
    assert reading.why is not None
    if reading.why in _SHARED:
        return reading.why
    if reading.reader == "capture" and reading.why == "nothing" and capture_detail is not None:
        return capture_detail
    return f"{'capture' if reading.reader == 'capture' else 'model'}_{reading.why}"
