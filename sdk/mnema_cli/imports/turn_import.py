"""Import of a file's chat turns into the running server, with a bounded number of requests in flight."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rich.markup import escape

from mnema_cli.client import open_client
from mnema_cli.imports.sending import Entry, Outcome, Stop, learn_from, make_batches, send_all
from mnema_cli.imports.turn_lines import BadLine, parse_turn
from mnema_cli.installation import installation
from mnema_cli.output import exit_with_error, out


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the file. `key` depends on this line alone, `before` is a hash over all lines before it."""

    number: int
    text: str
    key: str
    before: str


@dataclass(slots=True)
class ImportReport:
    """The counts of an import, and the skipped lines with their reasons.

    `failed` counts the skipped lines, without those that the server refuses on purpose, such as erased texts.
    """

    stored: int = 0
    failed: int = 0
    resumed_after: int = 0
    skipped: list[tuple[int, str]] = field(default_factory=list)


def import_turns(file: Path, workers: int, *, restart: bool, learn: bool) -> None:
    """Send every line of `file`. Idempotency keys make a repeated line harmless. `learn`: rules draw facts from it."""
    category = installation().turn_category
    with open_client() as client, ThreadPoolExecutor(workers) as pool:
        progress_file = _progress_file(file, str(client.base_url))
        report = ImportReport(resumed_after=0 if restart else _resumable_line(progress_file, file))
        total = sum(1 for _ in _read_lines(file))
        before = sum(1 for line in _read_lines(file) if line.number <= report.resumed_after)
        fresh = (_turn_entry(line, category) for line in _read_lines(file) if line.number > report.resumed_after)
        entries = map(learn_from, fresh) if learn else fresh

        def save_progress(batch: list[Entry], outcomes: list[Outcome]) -> None:
            report.stored += sum(1 for outcome in outcomes if outcome.reason is None)
            report.failed += sum(1 for each in outcomes if each.reason is not None and not each.declined)
            report.skipped += [(each.entry.number, each.reason) for each in outcomes if each.reason is not None]
            _write_progress(progress_file, file, *_resume_point(file, batch[-1], report))

        stopped = send_all(client, pool, make_batches(entries, workers * 4), (before, total), save_progress)
    _print_report(report, file)
    _exit_on_failure(report, stopped)


def check_turns(file: Path) -> None:
    """Read every line of `file`, print how many turns it has and what is wrong with the others, and send nothing."""
    server = installation()
    report = ImportReport()
    now = datetime.now(UTC)
    for line in _read_lines(file):
        entry = _turn_entry(line, server.turn_category)
        problem: str | None = entry.problem
        if entry.body is not None:
            problem = server.find_refusal(entry.body, False, now)
        if problem:
            report.failed += 1
            report.skipped.append((line.number, problem))
        else:
            report.stored += 1
    _print_report(report, file, "would be stored")
    _exit_on_failure(report, None)


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
    place = f"line {line.number}"
    try:
        body = parse_turn(line.text, category)
    except BadLine as error:
        return Entry(line.number, place, None, str(error), line.key, "", line.before)
    return Entry(line.number, place, body, "", line.key, str(body["thread_id"]), line.before)


def _progress_file(file: Path, url: str) -> Path:
    name = hashlib.sha256(f"{file.resolve()}\n{url}".encode()).hexdigest()[:24]
    return installation().folder / "imports" / f"{name}.json"


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


def _print_report(report: ImportReport, file: Path, verb: str = "stored") -> None:
    if report.resumed_after:
        out.print(f"continued after line {report.resumed_after} of an earlier import (--restart starts again)")
    out.print(f"{report.stored} turns {verb} from {escape(file.name)}, {len(report.skipped)} skipped")
    for number, reason in sorted(report.skipped)[:50]:
        # an import of turns has no --trim
        out.print(f"  line {number}: {escape(reason.replace(' or pass trim=true', ''))}", highlight=False)
    if len(report.skipped) > 50:
        out.print(f"  … and {len(report.skipped) - 50} more")


def _exit_on_failure(report: ImportReport, stopped: Stop | None) -> None:
    if stopped:
        exit_with_error(stopped.describe())
    if report.failed:
        done = report.stored or report.resumed_after
        exit_with_error(f"{report.failed} lines were not imported" if done else "nothing was imported")
