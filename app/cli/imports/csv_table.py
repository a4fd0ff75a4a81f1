"""CSV files with a header: each row is a memory, or a turn if it names a thread and a role."""

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from app.cli.imports.records import Bad, Choices, Found, SourceFailed, hash_text

Json = dict[str, Any]
MAX_CELL = 1 << 20
"""Characters of the longest cell that is read."""
NAMES = ("user_id", "category", "type", "thread_id", "agent_id", "run_id", "actor_id", "role", "created_at", "text")
ALIASES = {"content": "text", "memory": "text", "user": "user_id", "thread": "thread_id", "agent": "agent_id"}
DELIMITERS = ",;\t|"
YES_OR_NO = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _read_number(cell: str) -> int:
    return int(cell)


def _read_choice(cell: str) -> bool:
    return YES_OR_NO[cell.lower()]


def _read_tags(cell: str) -> list[str]:
    return [tag.strip() for tag in cell.replace(";", ",").split(",") if tag.strip()]


PARSED: Mapping[str, tuple[Callable[[str], object], str]] = {
    "seq": (_read_number, "a whole number"),
    "importance": (_read_number, "a whole number"),
    "pinned": (_read_choice, "true or false"),
    "tags": (_read_tags, "tags"),
}


def read_csv(file: Path, choices: Choices, columns: Mapping[str, str]) -> Iterator[Found]:
    """Yield the rows of a file. `columns`: names of columns with Mnema's names for them. Raise SourceFailed."""
    csv.field_size_limit(MAX_CELL)
    with file.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as stream:
        first = stream.readline(MAX_CELL)
        stream.seek(0)
        rows = csv.reader(stream, delimiter=max(DELIMITERS, key=first.count))
        header = _read_header(rows, file, columns)
        seen: Counter[str] = Counter()
        while True:
            try:
                cells = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                yield Bad(f"line {rows.line_num}", f"not CSV: {error}")
                continue
            place = f"line {rows.line_num}"
            if len(cells) > len(header):
                yield Bad(place, f"{len(cells)} cells for {len(header)} columns")
            elif any(cell.strip() for cell in cells):
                yield _make_record(place, dict(zip(header, cells, strict=False)), choices, seen)


def _read_header(rows: Iterator[list[str]], file: Path, columns: Mapping[str, str]) -> list[str]:
    try:
        found = [cell.strip() for cell in next(rows, [])]
    except csv.Error as error:
        raise SourceFailed(f"{file.name} is not CSV: {error}") from None
    if absent := sorted(set(columns) - set(found)):
        raise SourceFailed(f"{file.name} has no column {', '.join(absent)}; its columns are: {', '.join(found)}")
    names = [columns.get(name) or ALIASES.get(name.lower(), name.lower()) for name in found]
    header = [
        name if name in (*NAMES, *PARSED, "id") else original for name, original in zip(names, found, strict=True)
    ]
    if "text" not in header:
        raise SourceFailed(f"{file.name} has no column text; name it with --column {found[0] if found else 'x'}=text")
    if twice := sorted(name for name, count in Counter(header).items() if count > 1):
        raise SourceFailed(f"{file.name} has more than one column {', '.join(twice)}")
    return header


def _field_name(column: str, columns: Mapping[str, str]) -> str:
    """Return Mnema's name for a column, or the column's own name."""
    name = columns.get(column) or ALIASES.get(column.lower(), column.lower())
    return name if name in (*NAMES, *PARSED, "id") else column


def _make_record(place: str, row: Json, choices: Choices, seen: Counter[str]) -> Found:
    cells = {name: cell.strip() for name, cell in row.items() if cell.strip()}
    if any("\udc80" <= char <= "\udcff" for cell in cells.values() for char in cell):
        return Bad(place, "not UTF-8")
    fields: Json = {name: cells.pop(name) for name in NAMES if name in cells}
    for name, (parse, expected) in PARSED.items():
        try:
            fields |= {name: parse(cells.pop(name))} if name in cells else {}
        except (KeyError, ValueError):
            return Bad(place, f"{name} is not {expected}")
    given = cells.pop("id", None)
    identity = hash_text(given, fields, cells)
    if given is None:
        seen[identity] += 1
        identity = f"{identity}-{seen[identity]}"
    fields |= {"metadata": cells, "id": given}
    text, category, kind = fields.pop("text", None), fields.pop("category", None), fields.pop("type", None)
    if kind == "turn" or (kind is None and "role" in fields and "thread_id" in fields):
        return choices.make_turn(place, identity, text, role=fields.pop("role", None), **fields)
    return choices.make_memory(place, identity, text, names=(category,), type=kind, **fields)
