"""Import of a file's turns or memories into the running server, with a bounded number of requests in flight."""

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.cli.client import describe_response, err, exit_with_error, open_client, out
from app.cli.import_formats import READERS, BadExport, BadLine, Export, ImportChoices, Product, parse_turn
from app.config.loader import load_policies
from app.config.settings import Settings
from app.domain.categories import PROCEDURAL
from app.embedded.home import Home

RETRIES = 5
TRANSIENT_STATUSES = (429, 500, 502, 503, 504)
"""Statuses that a retry may cure."""
REJECTED_STATUSES = (400, 403, 409, 422)
"""Statuses that concern only this line, if the answer comes from Mnema."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the file. `key` depends on this line alone, `before` is a hash over all lines before it."""

    number: int
    text: str
    key: str
    before: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One request: its line number, and its body, or a `problem` if it has none. Requests of a lane go in order."""

    number: int
    body: dict[str, Any] | None
    problem: str
    key: str
    lane: str
    before: str = ""


@dataclass(slots=True)
class ImportReport:
    """The counts of an import, and the skipped lines or items with their reasons."""

    unit: str = "line"
    stored: int = 0
    resumed_after: int = 0
    skipped: list[tuple[int, str]] = field(default_factory=list)


class ImportInterrupted(Exception):
    """The server is not reachable or refuses the key, so the import stops."""


def import_turns(file: Path, workers: int, restart: bool) -> None:
    """Send every line of `file`. Idempotency keys make a repeated line harmless."""
    settings = Settings()
    category = load_policies(settings.embedding_model, settings.config_dir).turn_category
    with open_client() as client, ThreadPoolExecutor(workers) as pool:
        progress_file = _progress_file(file, str(client.base_url))
        report = ImportReport(resumed_after=0 if restart else _resumable_line(progress_file, file))
        total = sum(1 for _ in _read_lines(file))
        before = sum(1 for line in _read_lines(file) if line.number <= report.resumed_after)
        entries = (_turn_entry(line, category) for line in _read_lines(file) if line.number > report.resumed_after)

        def save_progress(last: Entry) -> None:
            _write_progress(progress_file, file, *_resume_point(file, last, report))

        stopped = _send_all(client, pool, _entry_batches(entries, workers * 4), report, (before, total), save_progress)
    _print_report(report, file, "turns")
    _exit_on_failure(report, stopped)


def import_export(
    file: Path, product: Product, workers: int, category: str | None, user: str | None, trim: bool
) -> None:
    """Send every memory of another product's export. A memory that is already stored is not stored again."""
    settings = Settings()
    policies = load_policies(settings.embedding_model, settings.config_dir)
    known = set(policies.categories.categories) - {PROCEDURAL}
    choices = ImportChoices(known, category or policies.turn_category, user)
    try:
        export = READERS[product](file.read_text(encoding="utf-8-sig"), choices)
    except (BadExport, UnicodeDecodeError) as error:
        exit_with_error(f"{file.name} is not an export of {product}: {error}")
    report, suffix = ImportReport(unit="item"), "-trim" if trim else ""  # with trim it is another request
    entries = (
        Entry(
            item.number, item.body, item.problem, f"{item.content_key}{suffix}", str((item.body or {}).get("user_id"))
        )
        for item in export.items
    )
    with open_client() as client, ThreadPoolExecutor(workers) as pool:
        client.params = client.params.set("trim", trim)
        stopped = _send_all(client, pool, _entry_batches(entries, workers * 4), report, (0, len(export.items)))
    _print_report(report, file, "memories")
    _print_choices(export, product, category, choices)
    _exit_on_failure(report, stopped)


def _send_all(
    client: httpx.Client,
    pool: ThreadPoolExecutor,
    batches: Iterator[list[Entry]],
    report: ImportReport,
    progress: tuple[int, int],
    on_batch: Callable[[Entry], None] = lambda _last: None,
) -> str | None:
    """Send the batches; `on_batch` gets the last entry of each. Return None, or the reason for an early stop."""
    completed, total = progress
    bar = Progress(TextColumn("import"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=err)
    with bar:
        task = bar.add_task("import", total=total, completed=completed)
        try:
            for batch in batches:
                _send_batch(client, pool, batch, report)
                on_batch(batch[-1])
                bar.advance(task, len(batch))
        except (ImportInterrupted, KeyboardInterrupt) as error:
            return str(error) or "Ctrl-C"
    return None


def _send_batch(client: httpx.Client, pool: ThreadPoolExecutor, batch: list[Entry], report: ImportReport) -> None:
    """Send a batch: requests of one lane in order, lanes in parallel."""
    lanes: dict[str, list[Entry]] = {}
    for entry in batch:
        if entry.body is None:
            report.skipped.append((entry.number, entry.problem))
        else:
            lanes.setdefault(entry.lane, []).append(entry)
    futures: list[Future[list[tuple[int, str | None]]]] = [
        pool.submit(_send_lane, client, lane, report.unit) for lane in lanes.values()
    ]
    try:
        for future in futures:
            for number, problem in future.result():
                if problem is None:
                    report.stored += 1
                else:
                    report.skipped.append((number, problem))
    except BaseException:
        for future in futures:
            future.cancel()
        raise


def _send_lane(client: httpx.Client, lane: list[Entry], unit: str) -> list[tuple[int, str | None]]:
    return [(entry.number, _send_entry(client, entry, unit)) for entry in lane]


def _send_entry(client: httpx.Client, entry: Entry, unit: str) -> str | None:
    """Return None if the entry was stored, else the reason. Raise ImportInterrupted if no entry can be sent."""
    failure = ""
    for attempt in range(RETRIES):
        time.sleep(attempt * attempt * 0.2)
        try:
            response = client.post("/memory", json=entry.body, headers={"Idempotency-Key": entry.key})
        except httpx.TransportError as error:
            failure = f"{client.base_url}: {str(error) or type(error).__name__}"
            continue
        except ValueError as error:
            return f"cannot be sent: {error}"
        if response.status_code == 201:
            skipped: str | None = response.json().get("reason")
            return skipped
        failure = describe_response(response)
        if _is_about_the_line(response):
            return failure
        if response.status_code not in TRANSIENT_STATUSES:
            break
    raise ImportInterrupted(f"{unit} {entry.number}: {failure}")


def _is_about_the_line(response: httpx.Response) -> bool:
    """Return True if the refusal concerns only this line, not the key or a server that is not Mnema."""
    if response.status_code == 413:
        return True
    ours = response.headers.get("Content-Type", "").startswith("application/problem+json")
    return ours and response.status_code in REJECTED_STATUSES and response.json().get("code") != "scope_required"


def _read_lines(file: Path) -> Iterator[Line]:
    """Yield the lines, numbered from 1, without blank ones."""
    seen: Counter[bytes] = Counter()
    before = ""
    name = f"{file.resolve()}\n".encode("utf-8", "surrogateescape")
    with file.open(encoding="utf-8-sig", errors="surrogateescape") as stream:
        for number, text in enumerate(stream, 1):
            if line := text.strip():
                digest = hashlib.sha256(name + line.encode("utf-8", "surrogateescape")).digest()
                seen[digest] += 1
                yield Line(number, line, key := f"{digest.hex()}-{seen[digest]}", before)
                before = _chain_keys(before, key)


def _chain_keys(before: str, key: str) -> str:
    return hashlib.sha256(f"{before} {key}".encode()).hexdigest()


def _turn_entry(line: Line, category: str) -> Entry:
    try:
        body = parse_turn(line.text, category)
    except BadLine as error:
        return Entry(line.number, None, str(error), line.key, "", line.before)
    return Entry(line.number, body, "", line.key, str(body["thread_id"]), line.before)


def _entry_batches(entries: Iterable[Entry], size: int) -> Iterator[list[Entry]]:
    rest = iter(entries)
    while batch := list(islice(rest, size)):
        yield batch


def _progress_file(file: Path, url: str) -> Path:
    name = hashlib.sha256(f"{file.resolve()}\n{url}".encode()).hexdigest()[:24]
    return Home().path / "imports" / f"{name}.json"


def _resume_point(file: Path, last: Entry, report: ImportReport) -> tuple[int, str]:
    """Return the last line that the next run can skip, and the hash over all lines up to it.

    A skipped last line without a newline is not counted, because somebody may still be writing it.
    """
    with file.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        ends_in_newline = stream.read() == b"\n"
    if ends_in_newline or all(number != last.number for number, _problem in report.skipped):
        return last.number, _chain_keys(last.before, last.key)
    return last.number - 1, last.before


def _resumable_line(progress_file: Path, file: Path) -> int:
    """Return the last line that an earlier run imported, 0 to start at the first line.

    A file that has only grown is resumed. If an imported line was changed, added or removed, the import starts again. A
    line that is sent twice is stored once, as long as the server keeps its idempotency keys.
    """
    try:
        saved = json.loads(progress_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0
    digest = ""
    for line in _read_lines(file):
        if line.number > saved["line"]:
            break
        digest = _chain_keys(line.before, line.key)
    return int(saved["line"]) if saved.get("lines") == digest else 0


def _write_progress(progress_file: Path, file: Path, line: int, lines: str) -> None:
    progress_file.parent.mkdir(parents=True, exist_ok=True)
    draft = progress_file.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps({"line": line, "lines": lines, "file": str(file)}), encoding="utf-8")
    draft.replace(progress_file)


def _print_report(report: ImportReport, file: Path, noun: str) -> None:
    if report.resumed_after:
        out.print(f"continued after line {report.resumed_after} of an earlier import (--restart starts again)")
    out.print(f"{report.stored} {noun} stored from {escape(file.name)}, {len(report.skipped)} skipped")
    for number, reason in sorted(report.skipped)[:50]:
        out.print(f"  {report.unit} {number}: {escape(reason)}", highlight=False)
    if len(report.skipped) > 50:
        out.print(f"  … and {len(report.skipped) - 50} more")


def _print_choices(export: Export, product: Product, category: str | None, choices: ImportChoices) -> None:
    """Print how many items got the default category, and the notes of the export."""
    if unmapped := sum(1 for item in export.items if item.body and not item.mapped):
        source = "from --category" if category else "the category of turns; choose another with --category"
        default = f"they got {choices.default_category} ({source})"
        text = f"{unmapped} of {len(export.items)} have no category that Mnema knows; {default}"
        out.print(f"  {escape(text)}", highlight=False)
    for note in export.notes:
        out.print(f"  note: {escape(note)}", highlight=False)


def _exit_on_failure(report: ImportReport, stopped: str | None) -> None:
    if report.skipped and not (report.stored or report.resumed_after or stopped):
        exit_with_error("nothing was imported")
    if stopped:
        exit_with_error(f"stopped: {stopped}; run the same command again to continue")
