"""Memory stores of Portable AI Memory (PAM) 1.x: one JSON document with the memories of one owner."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mnema_cli.imports.records import Bad, Choices, Found, LeftOut, Note, SourceFailed, Write, creation_time

Json = dict[str, Any]
MAX_FILE_BYTES = 256 << 20
SCHEMA = "portable-ai-memory"
ACTIVE = "active"
METADATA_FIELDS = ("type", "custom_type", "summary", "confidence", "provenance", "metadata")


def read_pam(file: Path, choices: Choices) -> Iterator[Found]:
    """Yield the active memories of a store, oldest first, so that later facts win. Raise SourceFailed."""
    store = _load_store(file)
    owner = store.get("owner")
    user = owner.get("id") if isinstance(owner, dict) else None
    found = [_make_memory(f"memories[{n}]", row, user, choices) for n, row in enumerate(store["memories"])]
    yield from sorted(found, key=creation_time)
    for name, what in (
        ("relations", "relations"),
        ("conversations_index", "conversations, which are files of their own"),
    ):
        if isinstance(rest := store.get(name), list) and rest:
            yield Note(f"{len(rest)} {what}: not imported")
    yield Note("hashes and signatures are not checked")


def _load_store(file: Path) -> Json:
    if file.stat().st_size > MAX_FILE_BYTES:
        raise SourceFailed(f"{file.name} is larger than {MAX_FILE_BYTES >> 20} MiB")
    try:
        store = json.loads(file.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise SourceFailed(f"{file.name} is not a memory store of PAM: not JSON: {error}") from None
    if not isinstance(store, dict) or store.get("schema") != SCHEMA:
        raise SourceFailed(f"{file.name} is not a memory store of PAM: its schema is not {SCHEMA}")
    if not str(store.get("schema_version")).startswith("1."):
        raise SourceFailed(f"{file.name} has schema_version {store.get('schema_version')!r}; only 1.x is read")
    if not isinstance(store.get("memories"), list):
        raise SourceFailed(f"{file.name} has no list of memories")
    return store


def _make_memory(place: str, row: Any, user: object, choices: Choices) -> Write | LeftOut | Bad:
    if not isinstance(row, dict):
        return Bad(place, "not a JSON object")
    if row.get("status", ACTIVE) != ACTIVE:
        return LeftOut("memories that are not active")
    if missing := [name for name in ("id", "content") if not isinstance(row.get(name), str) or not row[name]]:
        return Bad(place, f"missing {', '.join(missing)}")
    times = row["temporal"] if isinstance(row.get("temporal"), dict) else {}
    return choices.make_memory(
        place,
        row["id"],
        row["content"],
        names=(row.get("custom_type"), row.get("type")),
        user_id=user,
        tags=row.get("tags"),
        created_at=times.get("created_at"),
        valid_from=times.get("valid_from"),
        valid_to=times.get("valid_until"),
        metadata={name: row.get(name) for name in METADATA_FIELDS},
    )
