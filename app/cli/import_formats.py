"""Chat turns and other products' exports as bodies for POST /memory. Pure: text in, bodies out.

mem0 is read because `get_all()` answers in one documented shape, on its platform and in the open-source library. Others
are not: mem0's export jobs answer in a schema of their user's; Letta's agent file holds prompts and the latest
messages, without archival memory or users, under ids that are numbered anew at each export; Honcho documents an API, no
export.
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
    """Whose exports can be read."""

    mem0 = "mem0"


class BadExport(ValueError):
    """A file that is no such export; the message says why."""


class BadLine(ValueError):
    """A line that is no turn; the message says why."""


@dataclass(frozen=True, slots=True)
class ImportChoices:
    """What the caller decides: categories that may be mapped, where the rest goes, and whose memories without user."""

    known_categories: Collection[str]
    default_category: str
    user: str | None = None


@dataclass(frozen=True, slots=True)
class ExportItem:
    """One entry of an export: its body, or else what is wrong with it. `mapped`: its own category was kept."""

    number: int
    body: Json | None = None
    problem: str = ""
    mapped: bool = False

    @property
    def content_key(self) -> str:
        """The same for the same memory of the same origin, whatever the file is called."""
        return hashlib.sha256(json.dumps(self.body, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Export:
    """Its items, oldest first, so that what was learnt later wins; `notes` say what is not taken over."""

    items: list[ExportItem]
    notes: list[str]


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


def read_mem0(text: str, choices: ImportChoices) -> Export:
    """The answer of mem0's `get_all()`: `{"results": [...]}`, a bare list, several pages, or one memory a line."""
    pages = _parse_pages(text)
    rows = [row for page in pages for row in (page["results"] if _is_page(page) else [page])]
    items = [_from_mem0(number, row, choices) for number, row in enumerate(rows, 1)]
    return Export(sorted(items, key=_created_at), list(_mem0_notes(pages, rows)))


def _parse_pages(text: str) -> list[Any]:
    try:
        found = json.loads(text)
        return found if isinstance(found, list) else [found]
    except RecursionError as error:
        raise BadExport("nested too deep") from error
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


def _is_page(found: Any) -> bool:
    return isinstance(found, dict) and isinstance(found.get("results"), list)


def _from_mem0(number: int, row: Any, choices: ImportChoices) -> ExportItem:
    if not isinstance(row, dict):
        return ExportItem(number, problem="not a JSON object")
    if missing := [name for name in ("id", "memory") if row.get(name) in (None, "")]:
        return ExportItem(number, problem=f"missing {', '.join(missing)}")
    user = row.get("user_id") or choices.user
    if not user:
        return ExportItem(number, problem="missing user_id; --user says whose it is")
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
    """The first of its categories that is known here: the platform's `categories`, or the library's usual metadata."""
    named, metadata = row.get("categories"), row.get("metadata")
    found = list(named) if isinstance(named, list) else []
    if isinstance(metadata, dict):
        found.append(metadata.get("category"))
    by_name = {_normalise_name(name): name for name in known}
    return next(
        (
            by_name[_normalise_name(name)]
            for name in found
            if isinstance(name, str) and _normalise_name(name) in by_name
        ),
        None,
    )


def _normalise_name(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def _created_at(item: ExportItem) -> datetime:
    """A moment to sort by; what has none that can be read comes last."""
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
        yield f"{expiring} have an expiration date, kept in their metadata only"


READERS: Mapping[Product, Callable[[str, ImportChoices], Export]] = {Product.mem0: read_mem0}
