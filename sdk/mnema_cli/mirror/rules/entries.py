"""Entries of the store, the files that mirror them, and where these files lie."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from mnema_cli.mirror.rules.front_matter import FENCE, BrokenFile, read_front_matter, split_content, write_scalar
from mnema_cli.mirror.rules.names import decode_name, encode_name, is_cut_name

ENTRIES: Final = "entries"
FOLDERS: Final[Mapping[str, str]] = {
    "user": "turns/user",
    "assistant": "turns/assistant",
    "memory": "facts",
    "summary": "summaries",
}
"""The folder of each role inside the folder of its conversation."""

SUMMARY_NAME: Final = "summary.md"
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
_ROLES: Final = {folder: role for role, folder in FOLDERS.items()}
SPAN_KEYS: Final = ("valid_from", "valid_to", "expires_at")
_KEYS: Final = ("id", "conversation_id", "role", "created_at", "summary_kind", *SPAN_KEYS)


def hash_text(text: str) -> str:
    """Return the content hash of a text: the hexadecimal SHA-256 of its UTF-8."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Span:
    """The moments of an entry that a file shows and changes; None is open."""

    valid_from: datetime | None = None
    valid_to: datetime | None = None
    expires_at: datetime | None = None

    def write_moments(self) -> dict[str, str | None]:
        """Return the moments by their keys, as ISO 8601 in UTC."""
        moments = {key: getattr(self, key) for key in SPAN_KEYS}
        return {key: moment and moment.astimezone(UTC).isoformat() for key, moment in moments.items()}


OPEN: Final = Span()


def hash_content(text: str, span: Span | None) -> str:
    """Return the hash of what a file and its entry have in common: the text, and the span unless it is open."""
    moments = span and [f"{key}: {moment}" for key, moment in span.write_moments().items() if moment]
    return hash_text("\0".join((text, *moments)) if moments else text)


@dataclass(frozen=True, slots=True)
class MirrorEntry:
    """An entry of the store. `version` grows with each change of it."""

    id: str
    conversation_id: str
    role: str
    created_at: datetime
    text: str
    version: int
    summary_kind: str | None = None
    span: Span = OPEN

    @property
    def content_hash(self) -> str:
        """The hash of text and span."""
        return hash_content(self.text, self.span)


@dataclass(frozen=True, slots=True)
class MirrorFile:
    """A file's content: the text, what its front matter says, and the front matter's other lines.

    `span` is None without front matter: then the file says nothing of it.
    """

    text: str
    id: str | None = None
    conversation_id: str | None = None
    role: str | None = None
    created_at: datetime | None = None
    summary_kind: str | None = None
    other_lines: tuple[str, ...] = ()
    span: Span | None = OPEN

    @property
    def content_hash(self) -> str:
        """The hash of text and span."""
        return hash_content(self.text, self.span)


@dataclass(frozen=True, slots=True)
class Draft:
    """An entry to create. Without `created_at` the store takes its own time."""

    text: str
    conversation_id: str
    role: str
    created_at: datetime | None = None
    summary_kind: str | None = None
    span: Span = OPEN


def file_of(entry: MirrorEntry, other_lines: tuple[str, ...] = ()) -> MirrorFile:
    """Return the content of an entry's file."""
    return MirrorFile(
        entry.text,
        entry.id,
        entry.conversation_id,
        entry.role,
        entry.created_at,
        entry.summary_kind,
        other_lines,
        entry.span,
    )


def render_file(file: MirrorFile) -> bytes:
    """Return the bytes of a file. `parse_file` returns the same content for them.

    Between front matter and text is a blank line, and a newline follows the text, because many editors add both.
    """
    values = {
        "id": file.id,
        "conversation_id": file.conversation_id,
        "role": file.role,
        "created_at": file.created_at.isoformat() if file.created_at else None,
        "summary_kind": file.summary_kind,
        **(file.span or OPEN).write_moments(),
    }
    known = [f"{key}: {write_scalar(value)}" for key, value in values.items() if value is not None]
    return "\n".join((FENCE, *known, *file.other_lines, FENCE, "", file.text, "")).encode("utf-8")


def parse_file(content: bytes) -> MirrorFile:
    """Return the content of a file. A file without front matter is text alone. Raise BrokenFile."""
    try:
        decoded = content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise BrokenFile(f"byte {error.start} is not UTF-8; save the file as UTF-8") from error
    lines, text = split_content(decoded)
    is_dos = decoded[: decoded.find("\n") + 1].endswith("\r\n")
    text = text.removesuffix("\n")
    text = text.removesuffix("\r") if is_dos else text
    if lines is None:
        return MirrorFile(text, span=None)
    text = text.removeprefix("\r\n") if is_dos else text.removeprefix("\n")
    front = read_front_matter(lines, _KEYS)
    values = front.values
    moment = _read_moment("created_at", values.get("created_at"))
    span = Span(*(_read_moment(key, values.get(key)) for key in SPAN_KEYS))
    role = values.get("role")
    if role is not None and role not in FOLDERS:
        raise BrokenFile(f"the role `{role}` is unknown; write one of {', '.join(FOLDERS)}")
    return MirrorFile(
        text,
        values.get("id"),
        values.get("conversation_id"),
        role,
        moment,
        values.get("summary_kind"),
        front.other_lines,
        span,
    )


def _read_moment(key: str, value: str | None) -> datetime | None:
    """Return a moment; a date is its midnight in UTC. Raise BrokenFile."""
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(f"{value}T00:00:00Z" if _DATE.match(value) else value)
        moment.astimezone(UTC)
    except (ValueError, OverflowError):
        moment = None
    if moment is None or moment.tzinfo is None:
        raise BrokenFile(f"{key} is `{value}`; write a date, or a time with its zone, such as 2026-04-01T10:15:00Z")
    return moment


def entry_path(entry: MirrorEntry) -> str:
    """Return the usual path of an entry's file, relative to the root. The newest summary is `summary.md`."""
    folder = f"{ENTRIES}/{encode_name(entry.conversation_id)}/{FOLDERS[entry.role]}"
    return f"{folder}/{SUMMARY_NAME if entry.role == 'summary' else dated_name(entry)}"


def dated_name(entry: MirrorEntry) -> str:
    """Return the name `<timestamp>__<id>.md` of an entry's file."""
    return f"{entry.created_at.astimezone(UTC):%Y%m%dT%H%M%SZ}__{encode_name(entry.id)}.md"


def id_of_name(path: str) -> str | None:
    """Return the id in the name of a file, None if it has none or if the name was cut."""
    name = path.rpartition("/")[2].removesuffix(".md")
    return decode_name(name.partition("__")[2]) if "__" in name else None


def conflict_path(path: str, entry_id: str, text_hash: str | None = None) -> str:
    """Return the path of the conflict file of an entry. With `text_hash`, the name is for this text alone."""
    folder = path.rpartition("/")[0]
    mark = f"-{text_hash[:8]}" if text_hash else ""
    return f"{folder}/{encode_name(entry_id)}.conflict{mark}.md"


def place_of(path: str, conversations: Mapping[str, str]) -> tuple[str | None, str | None] | None:
    """Return the conversation and the role that a path stands for; None outside of a conversation's folder.

    If a folder's name is not the name of an id, it is itself the id. A shortened name stands for the conversation in
    `conversations`, if it is there. The role is None outside the folders of roles.
    """
    parts = path.split("/")
    if len(parts) < 3 or parts[0] != ENTRIES:
        return None
    conversation_id = conversations.get(parts[1]) if is_cut_name(parts[1]) else decode_name(parts[1]) or parts[1]
    folder = "/".join(parts[2:-1])
    role = next((role for name, role in _ROLES.items() if f"{folder}/".startswith(f"{name}/")), None)
    return conversation_id, role


def name_conversations(ids: Iterable[str | None]) -> dict[str, str]:
    """Return the conversations whose folders have shortened names, by these names."""
    names = ((encode_name(conversation_id), conversation_id) for conversation_id in set(ids) if conversation_id)
    return {name: conversation_id for name, conversation_id in names if is_cut_name(name)}
