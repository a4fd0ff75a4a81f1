"""Files of a user as memories: one memory of type `summary` for each file, because that type is never merged.

The memory's text, for searches, is the path and the beginning of the content. The exact content is in its metadata. A
change names the version that was read, so no change overwrites another; the memory's history has each version.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from mnema_wire.memory import Memory

from mnema_client.client import Mnema
from mnema_client.errors import CannotBeSent, InvalidRequest, VersionConflict

ROOT = "/memories"
TAG = "memory_file"
MAX_PATH = 400
PAGE = 200


class FileRefused(Exception):
    """A command that cannot be done: a wrong path, a file that is missing or changed meanwhile, too much content."""


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A stored file as it was read. `version` names this reading in a change."""

    path: str
    content: str
    id: UUID
    version: int

    @property
    def size(self) -> int:
        """The bytes of the content."""
        return len(self.content.encode())


class MemoryFiles:
    """The files of one user in one category. Methods raise FileRefused, and MnemaError for all else."""

    def __init__(self, memory: Mnema, *, user_id: str, category: str, agent_id: str | None = None) -> None:
        self._memory = memory
        self._agent = agent_id
        self._place: dict[str, Any] = {"user_id": user_id, "category": category, "type": "summary"}

    def find_file(self, path: str) -> MemoryFile | None:
        """Return the file of this path, None if there is none."""
        found = self._files_at(path)
        return found[0] if found else None

    def list_files(self, folder: str = ROOT) -> list[MemoryFile]:
        """Return the files below a folder, by path. This reads all files of the user."""
        memories = self._memory.list(**self._place, tag=TAG, limit=PAGE)
        below = (_file_of(memory) for memory in memories)
        return sorted((file for file in below if file.path.startswith(f"{folder}/")), key=lambda file: file.path)

    def create_file(self, path: str, content: str) -> None:
        """Store a new file. Of two that create the same path at once, at most one succeeds."""
        self._require_free(path)
        try:
            written = self._memory.remember(
                _text_of(path, content),
                **self._place,
                agent_id=self._agent,
                tags=[TAG],
                metadata={"path": path, "content": content},
                trim=True,
            )
        except (InvalidRequest, CannotBeSent) as error:
            raise _refusal(path, error) from error
        if written.id is None:
            raise FileRefused(f"The file {path} was not stored: {written.reason}")
        if len(self._files_at(path)) > 1:
            self._memory.delete(written.id)
            raise FileRefused(f"The file {path} was created by another at the same time. View it and try again.")

    def write_file(self, file: MemoryFile, content: str) -> None:
        """Replace the content of a file as it was read."""
        self._edit_file(file, file.path, content)

    def move_file(self, file: MemoryFile, path: str) -> None:
        """Give a file another path, which must be free."""
        self._edit_file(file, path, file.content)
        if len(self._files_at(path)) > 1:
            self._edit_file(MemoryFile(path, file.content, file.id, file.version + 1), file.path, file.content)
            raise FileRefused(f"The destination {path} was created by another at the same time.")

    def delete_file(self, file: MemoryFile) -> None:
        """Soft-delete a file as it was read; it can be restored until it is purged."""
        try:
            self._memory.delete(file.id, version=file.version)
        except VersionConflict as error:
            raise _changed(file.path) from error

    def require_free_tree(self, path: str, files: Sequence[MemoryFile]) -> None:
        """Raise FileRefused if the path is a file or a folder, or lies below a file."""
        for file in files:
            if file.path == path or file.path.startswith(f"{path}/"):
                raise FileRefused(f"The path {path} already exists")
            if path.startswith(f"{file.path}/"):
                raise FileRefused(f"{file.path} is a file and cannot contain {path}")

    def _require_free(self, path: str) -> None:
        if path == ROOT:
            raise FileRefused(f"The path {ROOT} is a directory")
        self.require_free_tree(path, self.list_files())

    def _files_at(self, path: str) -> list[MemoryFile]:
        memories = self._memory.list(**self._place, tag=TAG, metadata={"path": path}, order="asc")
        return [_file_of(memory) for memory in memories]

    def _edit_file(self, file: MemoryFile, path: str, content: str) -> None:
        metadata = {"path": path, "content": content}
        try:
            self._memory.edit(file.id, version=file.version, text=_text_of(path, content), metadata=metadata, trim=True)
        except VersionConflict as error:
            raise _changed(file.path) from error
        except (InvalidRequest, CannotBeSent) as error:
            raise _refusal(path, error) from error


def check_path(path: str) -> str:
    """Return a path below `/memories` without a slash at its end. Raise FileRefused."""
    clean = path.rstrip("/")
    names = clean.split("/")[1:]
    if names[:1] != [ROOT[1:]] or not clean.startswith("/"):
        raise FileRefused(f"Path must start with {ROOT}, got: {path}")
    if len(clean) > MAX_PATH or not clean.isprintable():
        raise FileRefused(f"A path has at most {MAX_PATH} printable characters, got: {path[:MAX_PATH]!r}")
    if any(name in ("", ".", "..") for name in names):
        raise FileRefused(f"A path has no empty name, `.` or `..`, got: {path}")
    return clean


def _file_of(memory: Memory) -> MemoryFile:
    return MemoryFile(str(memory.metadata["path"]), str(memory.metadata["content"]), memory.id, memory.version)


def _text_of(path: str, content: str) -> str:
    return f"{path}\n{content}"


def _changed(path: str) -> FileRefused:
    return FileRefused(f"The file {path} was changed by another at the same time. View it and try again.")


def _refusal(path: str, error: Exception) -> FileRefused:
    return FileRefused(f"The file {path} was not stored: {error}. A file has at most about 16,000 bytes; use several.")
