"""Files that the mirror takes out of the way before it replaces or deletes them, so that no save is overwritten unseen.

A file is renamed to a name of the mirror, and only then read. If it is not what was expected, it gets its name back, or
becomes a conflict file if another file has the name now. A run that was killed leaves it, and the next scan settles it.
"""

import os
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from mnema_cli.mirror.adapters.folders import Folder, open_regular, read_whole
from mnema_cli.mirror.rules.entries import MirrorFile, conflict_path, id_of_name, parse_file
from mnema_cli.mirror.rules.front_matter import BrokenFile
from mnema_cli.mirror.rules.names import OWN_PREFIX
from mnema_cli.mirror.rules.problems import StateChanged

REPLACED: Final = ".replaced"
DELETED: Final = ".deleted"
"""Endings of taken files: what the run was about to do with them."""

_TAKEN: Final = re.compile(rf"{re.escape(OWN_PREFIX)}[0-9a-f]{{8}}-([0-9a-f]{{16}})-(.+)(\.replaced|\.deleted)\Z")
_MAX_NAME_BYTES: Final = 200


@dataclass(frozen=True, slots=True)
class TakenFile:
    """A file under a name of the mirror. `name` is its own name."""

    folder: Folder
    name: str
    taken: str
    max_bytes: int

    def read_bytes(self) -> bytes | None:
        """Return the content, None if it cannot be read now."""
        try:
            return read_whole(open_regular(self.folder.descriptor, self.taken), self.max_bytes)
        except (StateChanged, OSError):
            return None

    def put_back(self) -> None:
        """Give the file its name again. If another file has it now, keep this one as a conflict file."""
        try:
            move_new(self.folder.descriptor, self.taken, self.name)
        except FileExistsError:
            self.keep_apart()

    def keep_apart(self) -> None:
        """Make a conflict file of it. A program that still writes into the file writes into that one."""
        if self._is_named():
            self.drop()
            return
        content = _parse(self.read_bytes())
        entry_id = (content and content.id) or id_of_name(self.name) or self.name.removesuffix(".md")
        for mark in (None, secrets.token_hex(8), secrets.token_hex(8)):
            with suppress(FileExistsError):
                move_new(self.folder.descriptor, self.taken, conflict_path(f"./{self.name}", entry_id, mark))
                return
        raise StateChanged(f"the conflict files of {entry_id} are in the way; move them away")

    def settle(self, seen: bytes) -> None:
        """Delete the file if it has still the content that was seen; else keep it as a conflict file."""
        if self.read_bytes() == seen:
            self.drop()
        else:
            self.keep_apart()

    def drop(self) -> None:
        """Delete the file."""
        os.unlink(self.taken, dir_fd=self.folder.descriptor)

    def _is_named(self) -> bool:
        """Return True if a killed run has given the file its name again, but has not yet removed the mirror's name."""
        descriptor = self.folder.descriptor
        try:
            named = os.stat(self.name, dir_fd=descriptor, follow_symlinks=False)
        except OSError:
            return False
        return os.path.samestat(named, os.stat(self.taken, dir_fd=descriptor, follow_symlinks=False))


def take_file(folder: Folder, name: str, text_hash: str, ending: str, max_bytes: int) -> tuple[TakenFile, bytes]:
    """Take a file whose text has this hash; return it and its content. Else put it back and raise StateChanged."""
    kept = name.encode("utf-8", "surrogateescape")[-_MAX_NAME_BYTES:].decode("utf-8", "ignore")
    taken = f"{OWN_PREFIX}{secrets.token_hex(4)}-{text_hash[:16]}-{kept}{ending}"
    os.rename(name, taken, src_dir_fd=folder.descriptor, dst_dir_fd=folder.descriptor)
    file = TakenFile(folder, name, taken, max_bytes)
    seen = file.read_bytes()
    content = _parse(seen)
    if seen is None or content is None or content.content_hash != text_hash:
        file.put_back()
        raise StateChanged(f"{folder.path}/{name} changed in the meantime")
    return file, seen


def settle_taken(folder: Folder, taken: str, max_bytes: int) -> bool:
    """Settle a file that a killed run took. Return False if the name is not that of a taken file."""
    if (match := _TAKEN.match(taken)) is None:
        return False
    text_hash, name, ending = match.groups()
    file = TakenFile(folder, name, taken, max_bytes)
    content = _parse(file.read_bytes())
    is_expected = content is not None and content.content_hash.startswith(text_hash)
    if is_expected and (ending == DELETED or _exists(folder, name)):
        file.drop()
    else:
        file.put_back()
    return True


def _parse(content: bytes | None) -> MirrorFile | None:
    try:
        return None if content is None else parse_file(content)
    except BrokenFile:
        return None


def _exists(folder: Folder, name: str) -> bool:
    with suppress(FileNotFoundError):
        os.stat(name, dir_fd=folder.descriptor, follow_symlinks=False)
        return True
    return False


def move_new(folder: int, source: str, name: str) -> None:
    """Give a file another name. Raise FileExistsError if another file has it."""
    try:
        os.link(source, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links, such as exFAT
        with suppress(FileNotFoundError):
            os.stat(name, dir_fd=folder, follow_symlinks=False)
            raise FileExistsError(name) from None
        os.rename(source, name, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        os.unlink(source, dir_fd=folder)
