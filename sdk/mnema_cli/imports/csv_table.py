"""CSV files with a header: each row is a memory, or a turn if it names a thread and a role."""

import csv
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from mnema_cli.imports.records import Bad, Choices, Found, SourceFailed, hash_text

Json = dict[str, Any]
MAX_CELL = 1 << 20
"""Maximum characters of a cell."""
NAMES = (
    "user_id",
    "category",
    "type",
    "thread_id",
    "agent_id",
    "run_id",
    "actor_id",
    "role",
    "created_at",
    "expires_at",
    "valid_from",
    "valid_to",
    "text",
)
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
        lines = _Lines(stream)
        rows = csv.reader(lines, delimiter=max(DELIMITERS, key=first.count), strict=True)
        header = _read_header(rows, file, columns)
        seen: Counter[str] = Counter()
        while True:
            lines.start_row()
            place = f"line {lines.number + 1}"
            try:
                cells = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                yield Bad(place, f"not CSV: {error}")
                lines.go_back()
                continue
            if len(cells) > len(header) or (lines.are_doubtful and len(cells) != len(header)):
                yield Bad(place, f"{len(cells)} cells for {len(header)} columns")
            elif any(cell.strip() for cell in cells):
                yield _make_record(place, dict(zip(header, cells, strict=False)), choices, seen)


class _Lines:
    """The lines of a file. If a row is not CSV, `go_back` continues at the second line of that row.

    A quote that is never closed makes all rows after it part of one row. Their lines are read again, each as a row of
    its own. The rest of the broken row may be among them, so these rows are doubtful: each must have a cell for each
    column.
    """

    def __init__(self, stream: Iterator[str]) -> None:
        self.number = 0
        self._stream = stream
        self._row: list[str] = []
        self._again: deque[str] = deque()
        self._doubtful_until = 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else next(self._stream)
        self.number += 1
        self._row.append(line)
        return line

    @property
    def are_doubtful(self) -> bool:
        """True if the row that was read last is one of the lines that were read again."""
        return self.number - len(self._row) < self._doubtful_until

    def start_row(self) -> None:
        """Begin a new row at the next line."""
        self._row = []

    def go_back(self) -> None:
        """Read all lines of the row but the first again."""
        self._doubtful_until = max(self._doubtful_until, self.number)
        self.number -= len(self._row) - 1
        self._again.extendleft(reversed(self._row[1:]))


def _read_header(rows: Iterator[list[str]], file: Path, columns: Mapping[str, str]) -> list[str]:
    try:
        found = [cell.strip() for cell in next(rows, [])]
    except csv.Error as error:
        raise SourceFailed(f"{file.name} is not CSV: {error}") from None
    if not any(found):
        raise SourceFailed(f"{file.name} has no header: its first line is empty")
    if any(char == "\0" or "\udc80" <= char <= "\udcff" for name in found for char in name):
        raise SourceFailed(f"{file.name} is not UTF-8")
    if absent := sorted(set(columns) - set(found)):
        raise SourceFailed(f"{file.name} has no column {', '.join(absent)}; its columns are: {', '.join(found)}")
    header = [_field_name(name, columns) for name in found]
    if "text" not in header:
        listed = f"its columns are: {', '.join(found)}"
        raise SourceFailed(f"{file.name} has no column text; name the one with texts with --column NAME=text; {listed}")
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
    text = fields.pop("text", None)
    category = fields.pop("category", None)
    kind = fields.pop("type", None)
    if kind == "turn" or (kind is None and "role" in fields and "thread_id" in fields):
        return choices.make_turn(place, identity, text, role=fields.pop("role", None), **fields)
    return choices.make_memory(place, identity, text, names=(category,), type=kind, **fields)
