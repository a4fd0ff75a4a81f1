"""One run of an import: send what a reader finds, or only count it, and report what was imported and what was not."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from rich.markup import escape
from rich.progress import track

from mnema_cli.imports.journal import Journal
from mnema_cli.imports.records import MEMORIES, Bad, Choices, Found, LeftOut, Note, SourceFailed, Write
from mnema_cli.imports.sending import LONGEST_LINE, Entry, Outcome, Stop, learn_from, make_batches, send_all
from mnema_cli.installation import installation
from mnema_cli.output import err, exit_with_error, out, show_text

MOST_SHOWN = 50
"""Failures that the report names; the others are counted."""
PLURALS = {"turn": "turns", "memory": "memories", "item": "items"}
"""The kinds of what is written, and their plurals."""
CHANGED = "was imported before with another text or with other options; it stays as it was"


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of a run. `source` is its name in the report, `identity` differs from source to source.

    `learn`: rules draw facts from the turns.
    """

    source: str
    identity: str
    workers: int = 8
    trim: bool = False
    restart: bool = False
    dry_run: bool = False
    learn: bool = False


@dataclass(slots=True)
class Tally:
    """The counts of a run, and its first failures."""

    stored: Counter[str] = field(default_factory=Counter)
    categories: Counter[str] = field(default_factory=Counter)
    already: int = 0
    unmapped: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    stopped: Stop | None = None

    def add_failure(self, place: str, problem: str) -> None:
        """Count a failure, and keep it if it is one of the first."""
        self.failed += 1
        if len(self.failures) < MOST_SHOWN:
            self.failures.append((place, problem.replace("pass trim=true", "pass --trim")))

    def add_stored(self, write: Write) -> None:
        """Count a record that was written, or that a dry run would write."""
        self.stored[write.kind] += 1
        if write.kind != "item":
            self.categories[f"{write.body.get('category')}"] += 1
        self.unmapped += not write.mapped


def import_records(client: httpx.Client, found: Iterator[Found], choices: Choices, plan: Plan) -> None:
    """Import what a reader finds, and report it. Exit with 1 if anything failed."""
    tally = Tally()
    with ExitStack() as stack:
        file = _journal_file(client, choices, plan)
        journal = stack.enter_context(Journal(file if file.exists() or not plan.dry_run else None))
        if plan.restart and not plan.dry_run:
            journal.forget_all()
        fresh = _find_new(found, journal, choices, plan, tally)
        if plan.dry_run:
            _count(fresh, choices, plan, tally)
        elif interrupted := _send(client, fresh, journal, plan, tally):
            tally.stopped = interrupted
    _print_report(tally, choices, plan)
    if tally.stopped:
        exit_with_error(tally.stopped.describe())
    if tally.failed:
        exit_with_error(f"{tally.failed} of the source's records {'would fail' if plan.dry_run else 'failed'}")


def _journal_file(client: httpx.Client, choices: Choices, plan: Plan) -> Path:
    """Return the file for a source, a server and a key. Another key may belong to another tenant."""
    parts = (choices.product, plan.identity, str(client.base_url), client.headers["Authorization"])
    return installation().folder / "imports" / f"{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]}.db"


def _read_all(found: Iterator[Found], tally: Tally) -> Iterator[Found]:
    """Yield what the reader finds until its end, or until the source fails."""
    try:
        yield from found
    except SourceFailed as error:
        tally.stopped = Stop(str(error), error.advice)


def _find_new(
    found: Iterator[Found], journal: Journal, choices: Choices, plan: Plan, tally: Tally
) -> Iterator[tuple[Entry, Write]]:
    """Yield the requests that are not sent yet, and count all other records."""
    for number, record in enumerate(_read_all(found, tally), 1):
        if isinstance(record, LeftOut):
            tally.left_out[record.reason] += 1
        elif isinstance(record, Bad):
            tally.add_failure(record.place, record.problem)
        elif isinstance(record, Note):
            tally.notes[record.text] = None
        else:
            try:
                entry = _make_entry(number, record, choices, plan.trim)
                digest = digest_body(record.body)
            except (ValueError, TypeError, RecursionError) as error:
                tally.add_failure(record.place, f"cannot be sent: {error}")
                continue
            if not plan.restart and journal.is_stored(entry.key, digest):
                tally.already += 1
            else:
                yield learn_from(entry) if plan.learn else entry, record


def _make_entry(number: int, write: Write, choices: Choices, trim: bool) -> Entry:
    """Return the request of a record. Only a text that is too long is sent with trim, so others stay the same."""
    key = hashlib.sha256(f"{choices.product}\n{write.identity}".encode("utf-8", "surrogateescape")).hexdigest()
    text = str(write.body.get("text", ""))
    too_long = trim and len(text) > choices.limits.limit_for(write.body.get("type") or "semantic")
    return Entry(number, write.place, write.body, "", key, write.lane, path=write.path, trim=too_long)


def digest_body(body: dict[str, Any]) -> bytes:
    """Return a digest of a body."""
    return hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).digest()[:16]


def _count(fresh: Iterator[tuple[Entry, Write]], choices: Choices, plan: Plan, tally: Tally) -> None:
    """Count what would be sent, and find what the server would refuse."""
    now = datetime.now(UTC)
    for _entry, write in track(fresh, "dry run", total=None, console=err, transient=True):
        problem = installation().find_refusal(write.body, plan.trim, now) if write.path == MEMORIES else None
        if problem:
            tally.add_failure(write.place, problem)
        else:
            tally.add_stored(write)


def _send(
    client: httpx.Client, fresh: Iterator[tuple[Entry, Write]], journal: Journal, plan: Plan, tally: Tally
) -> Stop | None:
    """Send the records in batches. Return why it stopped early, None at the end."""
    writes: dict[int, Write] = {}

    def entries() -> Iterator[Entry]:
        for entry, write in fresh:
            writes[entry.number] = write
            yield entry

    def record_batch(_batch: list[Entry], outcomes: list[Outcome]) -> None:
        kept = []
        for outcome in outcomes:
            entry = outcome.entry
            write = writes.pop(outcome.entry.number)
            if outcome.declined:
                tally.left_out[f"records that the server does not keep: {outcome.reason}"] += 1
            elif outcome.reason is not None:
                reused = outcome.reason.startswith("409 idempotency_key_reused")
                tally.add_failure(entry.place, CHANGED if reused else outcome.reason)
            else:
                tally.add_stored(write)
                kept.append((entry.key, digest_body(write.body)))
        journal.add_stored(kept)

    with ThreadPoolExecutor(plan.workers) as pool:
        return send_all(client, pool, make_batches(entries(), plan.workers * 4), (0, None), record_batch)


def _print_report(tally: Tally, choices: Choices, plan: Plan) -> None:
    stored = [(count, kind) for kind in PLURALS if (count := tally.stored[kind])]
    kinds = " and ".join(f"{count} {kind if count == 1 else PLURALS[kind]}" for count, kind in stored) or "nothing"
    verb = "would be stored" if plan.dry_run else "stored"
    counts = (f"{tally.already} already imported", f"{tally.left_out.total()} left out", f"{tally.failed} failed")
    _print(f"{kinds} {verb} from {plan.source}, {', '.join(counts)}")
    if plan.dry_run:
        _print("  dry run: nothing was written")
    if tally.categories:
        _print(f"  categories: {', '.join(f'{name} {count}' for name, count in sorted(tally.categories.items()))}")
    if tally.unmapped:
        default = f"they get {choices.default_category} (see --category and --map-category)"
        _print(f"  without a category that Mnema knows: {tally.unmapped}; {default}")
    for reason, count in sorted(tally.left_out.items()):
        _print(f"  left out: {count} × {reason}")
    for place, problem in tally.failures:
        _print(f"  failed: {place}: {problem}")
    if tally.failed > len(tally.failures):
        _print(f"  … and {tally.failed - len(tally.failures)} more failed")
    for note in tally.notes:
        _print(f"  note: {note}")


def _print(text: str) -> None:
    """Print a line that may hold words of the source: without control characters, and not without end."""
    out.print(escape(show_text(text)[:LONGEST_LINE]), highlight=False)
