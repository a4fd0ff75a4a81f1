"""Conversion of chat turns and other products' exports to bodies of POST /memory. The functions are pure.

mem0's `get_all()` is supported, because its platform and its open-source library answer in one documented shape. Other
exports are not supported. mem0's export jobs answer in a schema that their user chose. Letta's agent file has prompts
and the latest messages but no archival memory and no users, and its ids change with each export. Honcho documents an
API but no export.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

Json = dict[str, Any]
REQUIRED = ("user_id", "thread_id", "role", "content")
OPTIONAL = ("actor_id", "created_at", "seq", "agent_id", "run_id", "metadata")
COPIED_FIELDS = ("agent_id", "run_id", "actor_id", "role", "created_at")
METADATA_FIELDS = ("updated_at", "categories", "app_id", "expiration_date", "metadata")


class Product(StrEnum):
    """A product whose exports can be imported."""

    mem0 = "mem0"


class BadExport(ValueError):
    """A file that is not an export of the product; the message says why."""


class BadLine(ValueError):
    """A line that is not a turn; the message says why."""


@dataclass(frozen=True, slots=True)
class ImportChoices:
    """The choices of the caller.

    An item keeps its own category if it is among `known_categories`, else it gets `default_category`. `user` is the
    user of items without one; None skips them.
    """

    known_categories: Collection[str]
    default_category: str
    user: str | None = None


@dataclass(frozen=True, slots=True)
class ExportItem:
    """One entry of an export, with its body, or with a `problem` if it has none. `mapped`: it kept its own category."""

    number: int
    body: Json | None = None
    problem: str = ""
    mapped: bool = False

    @property
    def content_key(self) -> str:
        """A hash of the body: equal for the same memory of the same origin, whatever the file's name is."""
        return hashlib.sha256(json.dumps(self.body, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Export:
    """The items of an export, oldest first, so that later facts win. `notes` say what is not imported."""

    items: list[ExportItem]
    notes: list[str]


def parse_turn(line: str, category: str) -> dict[str, Any]:
    """Return the body of POST /memory for a line with a turn. Raise BadLine."""
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


def read_mem0(text: str, choices: ImportChoices) -> Export:
    """Return the items of an answer of mem0's `get_all()`. Raise BadExport.

    The text is `{"results": [...]}`, a bare list, several pages, or one memory a line.
    """
    pages = _parse_pages(text)
    rows = [row for page in pages for row in (page["results"] if _is_page(page) else [page])]
    items = [_from_mem0(number, row, choices) for number, row in enumerate(rows, 1)]
    return Export(sorted(items, key=_created_at), list(_mem0_notes(pages, rows)))


def _parse_pages(text: str) -> list[Any]:
    try:
        document = json.loads(text)
        return document if isinstance(document, list) else [document]
    except RecursionError as error:
        raise BadExport("nested too deeply") from error
    except ValueError as error:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2 or not lines[0].rstrip().endswith("}"):
            raise BadExport(f"not JSON: {error}") from error
    return [_parse_line(number, line) for number, line in enumerate(lines, 1)]


def _parse_line(number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadExport(f"item {number} is not JSON: {error}") from error


def _is_page(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("results"), list)


def _from_mem0(number: int, row: Any, choices: ImportChoices) -> ExportItem:
    if not isinstance(row, dict):
        return ExportItem(number, problem="not a JSON object")
    if missing := [name for name in ("id", "memory") if row.get(name) in (None, "")]:
        return ExportItem(number, problem=f"missing {', '.join(missing)}")
    user = row.get("user_id") or choices.user
    if not user:
        return ExportItem(number, problem="missing user_id; name the user with --user")
    own = _own_category(row, choices.known_categories)
    origin = {"imported_from": Product.mem0.value, "id": row["id"]}
    body = {
        "user_id": user,
        "text": row["memory"],
        "category": own or choices.default_category,
        "metadata": origin | {name: row[name] for name in METADATA_FIELDS if row.get(name)},
    }
    return ExportItem(
        number, body | {name: row[name] for name in COPIED_FIELDS if row.get(name)}, mapped=own is not None
    )


def _own_category(row: Json, known: Collection[str]) -> str | None:
    """Return the first category of a row that Mnema knows, None if there is none.

    The platform names them in `categories`, users of the library usually in the metadata.
    """
    listed, metadata = row.get("categories"), row.get("metadata")
    candidates = list(listed) if isinstance(listed, list) else []
    if isinstance(metadata, dict):
        candidates.append(metadata.get("category"))
    by_name = {_normalise_name(name): name for name in known}
    return next(
        (
            by_name[_normalise_name(name)]
            for name in candidates
            if isinstance(name, str) and _normalise_name(name) in by_name
        ),
        None,
    )


def _normalise_name(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def _created_at(item: ExportItem) -> datetime:
    """Return the creation time of an item. Items without a readable time sort last."""
    try:
        moment = datetime.fromisoformat((item.body or {})["created_at"])
    except (KeyError, TypeError, ValueError):
        return datetime.max.replace(tzinfo=UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _mem0_notes(pages: Iterable[Any], rows: Iterable[Any]) -> Iterable[str]:
    answers = [page for page in pages if _is_page(page)]
    if answers and answers[-1].get("next"):
        yield f"mem0 has more pages than this file ({answers[-1].get('count', 'unknown')} memories in all)"
    if any(page.get("relations") for page in answers):
        yield "mem0's graph relations are not imported"
    if expiring := sum(1 for row in rows if isinstance(row, dict) and row.get("expiration_date")):
        yield f"memories with an expiration date: {expiring} (it is kept only in their metadata)"


READERS: Mapping[Product, Callable[[str, ImportChoices], Export]] = {Product.mem0: read_mem0}
