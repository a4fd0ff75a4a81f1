"""Paths of files below a source's root: which can be used, how others are shown, and which names are left out."""

import hashlib
import re
from typing import Final

from app.domain.errors import InvalidInput
from app.domain.sources.rejection import Rejection, RejectionReason

MAX_PATH_BYTES: Final = 1_024
MAX_DEPTH: Final = 64
"""The most parts of a path: folders, and the file's name."""
_SHOWN_BYTES: Final = 900
_CONTROLS: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufffd\\\\]"
)
"""Control characters, line breaks, bytes that are not UTF-8 (as surrogates or replaced), direction marks, backslash."""
_LEFT_OUT: Final = frozenset(("node_modules", "__pycache__", "lost+found"))


def leaves_out(name: str) -> bool:
    """Tell whether files and folders of this name are never read: hidden ones, caches, copies of editors."""
    return name.startswith((".", "~$")) or name.endswith("~") or name in _LEFT_OUT


def find_path_problem(path: str) -> Rejection | None:
    """Return why a path cannot be stored and shown, None if it can."""
    if _CONTROLS.search(path):
        detail = "it has a control character, a line break, a backslash, a direction mark, or is not UTF-8"
    elif len(path.encode()) > MAX_PATH_BYTES:
        detail = f"the path has more than {MAX_PATH_BYTES} bytes"
    elif path.count("/") >= MAX_DEPTH:
        detail = f"the path has more than {MAX_DEPTH} parts"
    else:
        return None
    return Rejection(RejectionReason.UNUSABLE_NAME, detail)


def show_path(path: str) -> str:
    """Return a path that can be stored and shown. Two paths that differ are shown differently.

    Characters that cannot be used are escaped as in Python. No usable path has a backslash, so none looks escaped. A
    long path ends in a hash.
    """
    if find_path_problem(path) is None:
        return path
    shown = _CONTROLS.sub(_escape_character, path)
    if len(shown.encode()) > MAX_PATH_BYTES or shown.count("/") >= MAX_DEPTH:
        cut = shown.encode()[:_SHOWN_BYTES].decode(errors="ignore")
        digest = hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()
        shown = "/".join((*cut.split("/")[: MAX_DEPTH - 1], f"…\\{digest[:16]}"))
    return shown


def split_path(path: str) -> tuple[str, ...]:
    """Return the parts of a path below a root; the root's own, "", has none. Raise InvalidInput for any other path.

    It is relative, with '/', has no part such as `..`, and nothing that is left out.
    """
    if not path:
        return ()
    if problem := find_path_problem(path):
        raise InvalidInput(f"path: {problem.detail}")
    parts = tuple(path.split("/"))
    if any(part in ("", ".", "..") for part in parts):
        raise InvalidInput("path: must be relative, with '/' between its parts, without '.' or '..'")
    if any(leaves_out(part) for part in parts):
        raise InvalidInput("path: hidden files, caches and copies of editors are not part of a source")
    return parts


def _escape_character(found: re.Match[str]) -> str:
    character = found[0]
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    if "\x80" <= character <= "\x9f":  # not like a byte
        return f"\\u{ord(character):04x}"
    return character.encode("unicode_escape").decode()
