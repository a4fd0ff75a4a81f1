"""Answers of mem0's `get_all()`. Its platform and its open-source library share one documented shape.

mem0's export jobs are not read: they answer in a schema that their user chose.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from mnema_cli.imports.records import Bad, Choices, Found, Note, SourceFailed, Write, creation_time

Json = dict[str, Any]
MAX_FILE_BYTES = 256 << 20
COPIED_FIELDS = ("agent_id", "run_id", "actor_id", "role", "created_at")
METADATA_FIELDS = ("updated_at", "categories", "app_id", "metadata")


def read_mem0(file: Path, choices: Choices) -> Iterator[Found]:
    """Yield the memories of a saved answer, oldest first, so that later facts win. Raise SourceFailed.

    The text is `{"results": [...]}`, a bare list, several pages, or one memory a line.
    """
    if file.stat().st_size > MAX_FILE_BYTES:
        raise SourceFailed(f"{file.name} is larger than {MAX_FILE_BYTES >> 20} MiB")
    try:
        pages = _parse_pages(file.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise SourceFailed(f"{file.name} is not an export of mem0: {error}") from None
    rows = [row for page in pages for row in (page["results"] if _is_page(page) else [page])]
    found = [_make_memory(f"item {number}", row, choices) for number, row in enumerate(rows, 1)]
    yield from sorted(found, key=creation_time)
    yield from (Note(text) for text in _describe_rest(pages))


def _parse_pages(text: str) -> list[Any]:
    try:
        document = json.loads(text)
        return document if isinstance(document, list) else [document]
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError as error:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2 or not lines[0].rstrip().endswith("}"):
            raise ValueError(f"not JSON: {error}") from error
    return [_parse_line(number, line) for number, line in enumerate(lines, 1)]


def _parse_line(number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"item {number} is not JSON: {error}") from error


def _is_page(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("results"), list)


def _make_memory(place: str, row: Any, choices: Choices) -> Write | Bad:
    if not isinstance(row, dict):
        return Bad(place, "not a JSON object")
    if missing := [name for name in ("id", "memory") if row.get(name) in (None, "")]:
        return Bad(place, f"missing {', '.join(missing)}")
    return choices.make_memory(
        place,
        str(row["id"]),
        row["memory"],
        user_id=row.get("user_id"),
        names=_list_categories(row),
        expires_at=_day_after(row.get("expiration_date")),
        metadata={name: row.get(name) for name in METADATA_FIELDS},
        **{name: row.get(name) for name in COPIED_FIELDS},
    )


def _day_after(last_day: object) -> object:
    """Return the day after a memory's last one. What is no date stays as it is, for the server to refuse."""
    try:
        return (date.fromisoformat(str(last_day)) + timedelta(days=1)).isoformat()
    except (ValueError, OverflowError):
        return last_day


def _list_categories(row: Json) -> list[object]:
    """Return the names that a row gives its category.

    The platform names them in `categories`, users of the library usually in the metadata.
    """
    listed = row.get("categories")
    metadata = row.get("metadata")
    return [
        *(listed if isinstance(listed, list) else ()),
        metadata.get("category") if isinstance(metadata, dict) else None,
    ]


def _describe_rest(pages: Iterable[Any]) -> Iterator[str]:
    answers = [page for page in pages if _is_page(page)]
    if answers and answers[-1].get("next"):
        yield f"mem0 has more pages than this file ({answers[-1].get('count', 'unknown')} memories in all)"
    if any(page.get("relations") for page in answers):
        yield "mem0's graph relations are not imported"
