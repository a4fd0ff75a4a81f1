"""Names of files and folders for ids: they cannot leave the root, and no two ids share one on any file system."""

import hashlib
import re
import string
from enum import StrEnum
from typing import Final
from urllib.parse import unquote_to_bytes

MAX_NAME: Final = 120
"""Longest encoded id in bytes. File systems allow 255, and a file name has a time and an ending too."""

_PLAIN: Final = frozenset(string.ascii_letters + string.digits + "-_")
_DIGEST: Final = 16
_CUT: Final = re.compile(r"~[0-9a-f]{16}\Z")
_DEVICES: Final = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{port}{number}" for port in ("com", "lpt") for number in range(10)}
)
"""Names that Windows keeps for devices."""


def encode_name(text: str) -> str:
    """Return the name of an id: its letters and digits, all else as `%xx` of its UTF-8.

    File systems may ignore case. So a name with capitals ends in `~` and a digest; so does a name that was cut.
    """
    name = "".join(character if character in _PLAIN else _escape(character) for character in text)
    if name.lower() in _DEVICES:
        name = _escape(name[0]) + name[1:]
    if name and len(name) <= MAX_NAME and name == name.lower():
        return name
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{name[: MAX_NAME - _DIGEST - 1]}~{digest}"


def _escape(character: str) -> str:
    return "".join(f"%{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


def decode_name(name: str) -> str | None:
    """Return the id with this name. None if no id has it, or if it was cut."""
    if len(name) > MAX_NAME:
        return None
    try:
        text = unquote_to_bytes(name.partition("~")[0]).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    return text if encode_name(text) == name else None


def is_cut_name(name: str) -> bool:
    """Return True for the name of an id that was too long: nobody can tell the id from it."""
    return len(name) == MAX_NAME and _CUT.search(name) is not None and decode_name(name) is None


class FileKind(StrEnum):
    """Kinds of files below the root, by their names."""

    entry = "entry"
    conflict = "conflict"
    ignored = "ignored"
    other = "other"


OWN_PREFIX: Final = ".mnema-"
"""Prefix of the mirror's own files: the lock, and temporary files of atomic writes."""

_TEMPORARY: Final = (".tmp", ".temp", ".swp", ".swo", ".swx", ".bak", ".part", ".crdownload")
_SYSTEM: Final = frozenset({"thumbs.db", "desktop.ini", "icon\r"})
_CONFLICT: Final = re.compile(r"\.conflict(-[0-9a-f]{8})?\.md\Z")


def classify_name(name: str) -> FileKind:
    """Return the kind of a file by its name. Temporary files of editors and hidden files are ignored."""
    lower = name.lower()
    if lower.startswith((".", "~$")) or lower.endswith(("~", *_TEMPORARY)) or lower in _SYSTEM:
        return FileKind.ignored
    if (lower.startswith("#") and lower.endswith("#")) or (lower.isascii() and lower.isdigit()):  # Vim writes 4913
        return FileKind.ignored
    if not lower.endswith(".md"):
        return FileKind.other
    return FileKind.conflict if _CONFLICT.search(lower) else FileKind.entry
