"""Mnema's own exports (`mnema export`): sent as they are, in requests of several lines."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from rich.markup import escape

from mnema_cli.client import describe_failure, describe_response
from mnema_cli.imports.records import CONTINUE
from mnema_cli.imports.sending import LONGEST_LINE, RETRIES, TRANSIENT_STATUSES
from mnema_cli.output import USAGE, exit_with_error, out, show_text

BYTES_A_REQUEST = 8 << 20
LINES_A_REQUEST = 5000
MAX_LINE_BYTES = 32 << 20
"""The longest line that is read. The server takes shorter ones."""
PART = b'"file_content"'
"""A mark of the lines that hold a part of a file. The parts of a file are sent together."""
SHOWN = 50


@dataclass(slots=True)
class OwnReport:
    """The counts of an import by what was done, those left out by kind, and the refused lines."""

    done: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    refused: list[tuple[int, str]] = field(default_factory=list)


def import_export(client: httpx.Client, file: Path, user: str | None, *, renew_ids: bool, dry_run: bool) -> None:
    """Import a user's export; print what was done. Exit with an error if a line was refused."""
    user = user or _find_user(file)
    if dry_run:
        kinds = Counter(_kind(line) for _number, line in _read_lines(file))
        out.print(f"{sum(kinds.values())} records of {escape(user)}", highlight=False)
        for kind, count in sorted(kinds.items()):
            out.print(f"  {escape(kind):<20} {count}", highlight=False)
        return
    params = {"user_id": user, "ids": "renewed" if renew_ids else "kept"}
    report = OwnReport()
    for numbers, content in _split_requests(file):
        for answer in _send(client, params, content):
            _note(report, numbers[answer["line"] - 1], answer)
    _print_report(report, file)


def _read_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with their numbers, without blank ones. Exit with an error at a line that is too long."""
    with file.open("rb") as stream:
        number = 0
        while line := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                exit_with_error(f"line {number} has more than {MAX_LINE_BYTES >> 20} MiB")
            if line.strip():
                yield number, line if line.endswith(b"\n") else line + b"\n"


def _kind(line: bytes) -> str:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return "(not JSON)"
    kind = record.get("kind") if isinstance(record, dict) else None
    return show_text(kind[:100]) if isinstance(kind, str) else "(no kind)"


def _find_user(file: Path) -> str:
    first = next((line for _number, line in _read_lines(file)), b"")
    if _kind(first) != "user" or not isinstance(user := json.loads(first).get("user_id"), str):
        exit_with_error(f"{file.name} does not begin with the user; name the user with --user", USAGE)
    return user


def _split_requests(file: Path) -> Iterator[tuple[list[int], bytes]]:
    """Yield the lines of each request, with their numbers in the file."""
    numbers: list[int] = []
    lines: list[bytes] = []
    size = 0
    for number, line in _read_lines(file):
        full = len(lines) >= LINES_A_REQUEST or size + len(line) > BYTES_A_REQUEST
        if lines and full and not _continues_file(lines[-1], line):
            yield numbers, b"".join(lines)
            numbers, lines, size = [], [], 0
        numbers.append(number)
        lines.append(line)
        size += len(line)
    if lines:
        yield numbers, b"".join(lines)


def _continues_file(before: bytes, line: bytes) -> bool:
    """Return True if both lines are parts of one file."""
    if PART not in before[:100] or PART not in line[:100]:
        return False
    try:
        return bool(json.loads(before)["id"] == json.loads(line)["id"])
    except (ValueError, KeyError, TypeError):
        return False


def _send(client: httpx.Client, params: dict[str, str], content: bytes) -> list[dict[str, Any]]:
    """Send a request until it is answered whole: a record that is there already stays as it is."""
    for attempt in range(RETRIES):
        last = attempt == RETRIES - 1
        try:
            response = client.post("/import", params=params, content=content, timeout=600)
        except httpx.TransportError as error:
            if last:
                exit_with_error(f"{describe_failure(client, error)}; {CONTINUE}")
            time.sleep(2**attempt)
            continue
        if response.is_success:
            return [json.loads(line) for line in response.text.splitlines()]
        if response.status_code not in TRANSIENT_STATUSES or last:
            exit_with_error(describe_response(response))
        time.sleep(2**attempt)
    raise AssertionError


def _note(report: OwnReport, number: int, answer: dict[str, Any]) -> None:
    if (error := answer.get("error")) is not None:
        report.refused.append((number, f"{error['code']}: {error['detail']}"))
        return
    report.done[answer["action"]] += 1
    if answer["action"] == "left_out":
        report.left_out[answer["kind"]] += 1


def _print_report(report: OwnReport, file: Path) -> None:
    done = report.done
    out.print(
        f"{done['imported']} records imported from {escape(file.name)}, {done['unchanged']} were there,"
        f" {done['left_out']} left out, {len(report.refused)} refused",
        highlight=False,
    )
    for kind, count in sorted(report.left_out.items()):
        out.print(f"  left out: {count} × {escape(kind)}", highlight=False)
    for number, reason in report.refused[:SHOWN]:
        out.print(f"  line {number}: {escape(show_text(reason))[:LONGEST_LINE]}", highlight=False)
    if len(report.refused) > SHOWN:
        out.print(f"  … and {len(report.refused) - SHOWN} more")
    if report.refused:
        exit_with_error(f"{len(report.refused)} lines were not imported")
