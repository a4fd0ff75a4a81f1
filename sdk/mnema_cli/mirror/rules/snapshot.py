"""The snapshot: what was in step after the last run, and what a run was about to do. It is kept as JSON."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from mnema_cli.mirror.rules.names import OWN_PREFIX

INDEX_NAME: Final = "memory_index.json"
_FORMAT: Final = 1
_HASH: Final = re.compile(r"[0-9a-f]{64}\Z")

Side: TypeAlias = Literal["file", "store"]


class BrokenSnapshot(Exception):
    """A snapshot that cannot be used. The message says why."""


class ForeignRoot(Exception):
    """A root that mirrors another user."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """A file's times, size and inode. A file with the same stamp is not read again."""

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class Intent:
    """A change of one side that a run was about to make. `text_hash` None stands for a deletion.

    `version` is that of the entry, and `stamp` that of the file, before the change. If the run was killed, the side
    shows whether the change was made: it has the new text, or it is untouched.
    """

    side: Side
    text_hash: str | None
    version: int | None = None
    stamp: Stamp | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """An entry in step: where its file is, the hash of its text, its version. No hash: it was never in step."""

    path: str
    text_hash: str | None
    version: int | None
    stamp: Stamp | None = None
    intent: Intent | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """The creation of an entry from a file, begun with an idempotency key."""

    key: str
    text_hash: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Records by id, and pending creations by path."""

    records: Mapping[str, Record] = field(default_factory=dict)
    pending: Mapping[str, Pending] = field(default_factory=dict)


def dump_snapshot(snapshot: Snapshot, owner: str) -> bytes:
    """Return the snapshot as JSON. `owner` names the user whose entries the root mirrors."""
    head = f'"format": {_FORMAT}, "owner": {json.dumps(owner)}'
    records = _dump_lines({entry_id: _record_row(record) for entry_id, record in snapshot.records.items()})
    pending = _dump_lines({path: _pending_row(pending) for path, pending in snapshot.pending.items()})
    return f'{{{head},\n"records": {{{records}}},\n"pending": {{{pending}}}}}\n'.encode()


def _dump_lines(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the members of a JSON object, one a line, in order."""
    return ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(rows.items()))


def _record_row(record: Record) -> dict[str, Any]:
    intent = record.intent
    return {
        "path": record.path,
        "text_hash": record.text_hash,
        "version": record.version,
        "stamp": _stamp_row(record.stamp),
        "intent": None
        if intent is None
        else {
            "side": intent.side,
            "text_hash": intent.text_hash,
            "version": intent.version,
            "stamp": _stamp_row(intent.stamp),
        },
    }


def _pending_row(pending: Pending) -> dict[str, str]:
    return {"key": pending.key, "text_hash": pending.text_hash}


def _stamp_row(stamp: Stamp | None) -> dict[str, int] | None:
    if stamp is None:
        return None
    return {"mtime_ns": stamp.mtime_ns, "ctime_ns": stamp.ctime_ns, "size": stamp.size, "inode": stamp.inode}


def load_snapshot(content: bytes, owner: str) -> Snapshot:
    """Return the snapshot in `content`. Raise BrokenSnapshot, or ForeignRoot if it is another user's."""
    try:
        whole = json.loads(content)
        if not isinstance(whole, dict) or whole.get("format") != _FORMAT:
            raise BrokenSnapshot(f"{INDEX_NAME} has not format {_FORMAT}")
        if _text(whole["owner"]) != owner:
            is_same_tenant = str(whole["owner"]).partition("/")[0] == owner.partition("/")[0]
            whose = "another user" if is_same_tenant else "a user of another tenant"
            raise ForeignRoot(f"this folder mirrors {whose}; choose another folder")
        records = {_text(entry_id): _read_record(row) for entry_id, row in whole["records"].items()}
        pending = {
            check_path(path): Pending(_text(row["key"]), _hash(row["text_hash"]))
            for path, row in whole["pending"].items()
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BrokenSnapshot(f"{INDEX_NAME} cannot be read ({type(error).__name__})") from error
    return Snapshot(records, pending)


def check_path(path: str) -> str:
    """Return a path relative to the root. Raise ValueError if it is absolute, leaves the root, or is our own file."""
    parts = path.split("/")
    if any(part in ("", ".", "..") or part.startswith(OWN_PREFIX) for part in parts) or "\0" in path:
        raise ValueError(f"{path!r} is no path inside the root")
    return path


def _read_record(row: Any) -> Record:
    intent = row["intent"]
    stamp = row["stamp"]
    return Record(
        check_path(row["path"]),
        None if row["text_hash"] is None else _hash(row["text_hash"]),
        _version(row["version"]),
        _read_stamp(stamp),
        None if intent is None else _read_intent(intent),
    )


def _read_intent(row: Any) -> Intent:
    if row["side"] not in ("file", "store"):
        raise ValueError(row["side"])
    text_hash = None if row["text_hash"] is None else _hash(row["text_hash"])
    return Intent(row["side"], text_hash, _version(row["version"]), _read_stamp(row["stamp"]))


def _read_stamp(row: Any) -> Stamp | None:
    return None if row is None else Stamp(*(_whole(row[name]) for name in Stamp.__slots__))


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(value)
    return value


def _hash(value: Any) -> str:
    if not _HASH.match(value):
        raise ValueError(value)
    return str(value)


def _version(value: Any) -> int | None:
    return None if value is None else _whole(value)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(value)
    return value
