"""Turns from a file into the running server: bounded in flight, resumable, and plain about what it skips."""

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.cli.client import describe, err, fail, open_client, out
from app.cli.embedded.home import Home
from app.config.loader import load_policies
from app.config.settings import Settings

REQUIRED = ("user_id", "thread_id", "role", "content")
OPTIONAL = ("actor_id", "created_at", "seq", "agent_id", "run_id", "metadata")
RETRIES = 5
PASSING = (429, 500, 502, 503, 504)
"""Statuses that may be gone at the next try."""
REFUSED = (400, 403, 409, 422)
"""Statuses that are about this one line, if it is Mnema who answers so."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the file; `key` tells it from every other line, also when lines before it come or go."""

    number: int
    text: str
    key: str


@dataclass(slots=True)
class Report:
    """What became of the lines."""

    stored: int = 0
    resumed_after: int = 0
    skipped: list[tuple[int, str]] = field(default_factory=list)


class Interrupted(Exception):
    """The server is away or refuses the key: nothing more can be sent now."""


class BadLine(ValueError):
    """A line that is no turn; the message says why."""


def parse_turn(line: str, category: str) -> dict[str, Any]:
    """The body for POST /memory; raises BadLine."""
    try:
        turn = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"not JSON: {error}") from error
    if not isinstance(turn, dict):
        raise BadLine("not a JSON object")
    if missing := [name for name in REQUIRED if turn.get(name) in (None, "")]:
        raise BadLine(f"missing {', '.join(missing)}")
    if unknown := sorted(set(turn) - {*REQUIRED, *OPTIONAL}):
        raise BadLine(f"unknown field {', '.join(unknown)}")
    body = {name: turn[name] for name in (*REQUIRED, *OPTIONAL) if turn.get(name) is not None}
    text = body.pop("content")
    return body | {"text": text, "type": "turn", "category": category}


def import_turns(file: Path, workers: int, restart: bool) -> None:
    """Send every line of `file`; the server's idempotency keys make a repeated line harmless."""
    settings = Settings()
    category = load_policies(settings.embedding_model, settings.config_dir).turn_category
    with open_client() as client, ThreadPoolExecutor(workers) as pool:
        progress_file = _progress_file(file, str(client.base_url))
        report = Report(resumed_after=0 if restart else _done(progress_file, file))
        total = sum(1 for _ in _lines(file))
        before = sum(1 for line in _lines(file) if line.number <= report.resumed_after)
        bar = Progress(TextColumn("import"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=err)
        stopped = None
        with bar:
            task = bar.add_task("import", total=total, completed=before)
            try:
                for batch in _batches(file, report.resumed_after, workers * 4):
                    _send_batch(client, pool, batch, category, report)
                    _save(progress_file, file, _passed(file, batch[-1], report))
                    bar.advance(task, len(batch))
            except (Interrupted, KeyboardInterrupt) as error:
                stopped = str(error) or "Ctrl-C"
    _print(report, file)
    if report.skipped and not (report.stored or report.resumed_after or stopped):
        fail("nothing was imported")
    if stopped:
        fail(f"stopped: {stopped}; run the same command again to go on")


def _send_batch(
    client: httpx.Client, pool: ThreadPoolExecutor, batch: list[Line], category: str, report: Report
) -> None:
    """In order within a thread: lines of one thread go one after the other, threads side by side."""
    lanes: dict[str, list[tuple[Line, dict[str, Any]]]] = {}
    for line in batch:
        try:
            body = parse_turn(line.text, category)
        except BadLine as error:
            report.skipped.append((line.number, str(error)))
        else:
            lanes.setdefault(str(body["thread_id"]), []).append((line, body))
    futures: list[Future[list[tuple[int, str | None]]]] = [
        pool.submit(_send_lane, client, lane) for lane in lanes.values()
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


def _send_lane(client: httpx.Client, lane: list[tuple[Line, dict[str, Any]]]) -> list[tuple[int, str | None]]:
    return [(line.number, _send(client, line, body)) for line, body in lane]


def _send(client: httpx.Client, line: Line, body: dict[str, Any]) -> str | None:
    """None when stored, else why this line is not; raises Interrupted when the server cannot take any."""
    trouble = ""
    for attempt in range(RETRIES):
        time.sleep(attempt * attempt * 0.2)
        try:
            response = client.post("/memory", json=body, headers={"Idempotency-Key": line.key})
        except httpx.TransportError as error:
            trouble = f"{client.base_url}: {str(error) or type(error).__name__}"
            continue
        except ValueError as error:
            return f"cannot be sent: {error}"
        if response.status_code == 201:
            skipped: str | None = response.json().get("reason")
            return skipped
        trouble = describe(response)
        if _is_about_the_line(response):
            return trouble
        if response.status_code not in PASSING:
            break
    raise Interrupted(f"line {line.number}: {trouble}")


def _is_about_the_line(response: httpx.Response) -> bool:
    """Whether another line might be taken; not so when the key may not write, or some other server answers."""
    if response.status_code == 413:
        return True
    ours = response.headers.get("Content-Type", "").startswith("application/problem+json")
    return ours and response.status_code in REFUSED and response.json().get("code") != "scope_required"


def _lines(file: Path) -> Iterator[Line]:
    """Lines, numbered from 1; blank ones are passed over."""
    seen: Counter[bytes] = Counter()
    name = f"{file.resolve()}\n".encode("utf-8", "surrogateescape")
    with file.open(encoding="utf-8-sig", errors="surrogateescape") as stream:
        for number, text in enumerate(stream, 1):
            if line := text.strip():
                digest = hashlib.sha256(name + line.encode("utf-8", "surrogateescape")).digest()
                seen[digest] += 1
                yield Line(number, line, f"{digest.hex()}-{seen[digest]}")


def _batches(file: Path, after: int, size: int) -> Iterator[list[Line]]:
    batch = []
    for line in _lines(file):
        if line.number <= after:
            continue
        batch.append(line)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _progress_file(file: Path, url: str) -> Path:
    name = hashlib.sha256(f"{file.resolve()}\n{url}".encode()).hexdigest()[:24]
    return Home().path / "imports" / f"{name}.json"


def _identity(file: Path) -> dict[str, Any]:
    """What makes it the same file: its beginning. A grown file goes on; a rewritten one starts anew."""
    with file.open("rb") as stream:
        return {"head": hashlib.sha256(stream.readline(65_536).rstrip(b"\r\n")).hexdigest()}


def _passed(file: Path, last: Line, report: Report) -> int:
    """Up to which line the next run need not look: not past a line that somebody may still be writing."""
    with file.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        if stream.read() == b"\n":
            return last.number
    return last.number - any(number == last.number for number, _problem in report.skipped)


def _done(progress_file: Path, file: Path) -> int:
    try:
        saved = json.loads(progress_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0
    return int(saved["line"]) if saved.get("head") == _identity(file)["head"] else 0


def _save(progress_file: Path, file: Path, line: int) -> None:
    progress_file.parent.mkdir(parents=True, exist_ok=True)
    draft = progress_file.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps({**_identity(file), "line": line, "file": str(file)}), encoding="utf-8")
    draft.replace(progress_file)


def _print(report: Report, file: Path) -> None:
    if report.resumed_after:
        out.print(f"went on after line {report.resumed_after} of an earlier import (--restart begins anew)")
    out.print(f"{report.stored} turns stored from {escape(file.name)}, {len(report.skipped)} skipped")
    for number, reason in sorted(report.skipped)[:50]:
        out.print(f"  line {number}: {escape(reason)}", highlight=False)
    if len(report.skipped) > 50:
        out.print(f"  … and {len(report.skipped) - 50} more")
