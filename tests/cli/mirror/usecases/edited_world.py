"""Both sides of a mirror, edited at random, and runs that are killed at any step."""

import shutil
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from mnema_cli.mirror.adapters.files import PosixMirrorFiles
from mnema_cli.mirror.rules.entries import parse_file, render_file
from mnema_cli.mirror.rules.front_matter import BrokenFile
from mnema_cli.mirror.rules.names import FileKind, classify_name
from mnema_cli.mirror.usecases.steps import Mirror
from mnema_cli.mirror.usecases.sync import SyncReport, sync_mirror

from tests.cli.mirror.usecases.memory_store import MemoryStore

CHANGING = {"write_index", "create_file", "replace_file", "delete_file"} | {
    "create_entry",
    "update_entry",
    "restore_entry",
    "soft_delete_entry",
}


class Killed(BaseException):
    """The end of the process, which no code handles."""


@dataclass
class Fuse:
    """A count of changing calls until the process is killed, before the call or right after it."""

    calls: int | None
    after: bool = False

    def guard(self, side: Any) -> Any:
        fuse = self

        class Guarded:
            def __getattr__(self, name: str) -> Any:
                method = getattr(side, name)
                return (lambda *args: fuse.burn(method, args)) if name in CHANGING else method

        return Guarded()

    def burn(self, method: Any, args: tuple[Any, ...]) -> Any:
        if self.calls is not None:
            self.calls -= 1
        if self.calls == 0 and not self.after:
            raise Killed
        result = method(*args)
        if self.calls == 0:
            raise Killed
        return result


@dataclass
class World:
    """Both sides, and the texts that nobody has overwritten or deleted since they were written."""

    root: Path
    store: MemoryStore = field(default_factory=MemoryStore)
    live: set[str] = field(default_factory=set)
    old_files: list[str] = field(default_factory=list)
    old_entries: list[str] = field(default_factory=list)
    agreed: dict[str, str] = field(default_factory=dict)
    """The text on which both sides last agreed, by id. To go back to it is no edit."""
    texts: int = 0

    def new_text(self) -> str:
        self.texts += 1
        return f"text {self.texts}\n---\nid: x"

    def files(self, kind: FileKind = FileKind.entry) -> list[Path]:
        return sorted(path for path in self.root.glob("entries/**/*.md") if classify_name(path.name) is kind)

    def texts_now(self) -> set[str]:
        """The texts of all entries, files and conflict files."""
        texts = {entry.text for entry in self.store.entries.values()}
        for path in [*self.files(), *self.files(FileKind.conflict)]:
            texts.add(self.text_of(path))
        return texts

    def text_of(self, path: Path) -> str:
        with suppress(BrokenFile):
            return parse_file(path.read_bytes()).text
        return path.read_text()

    def act(self, name: str, number: int) -> None:
        getattr(self, name)(number)

    def store_add(self, number: int) -> None:
        text = self.new_text()
        self.store.add(text, f"chat {number % 2}", ("user", "assistant", "memory", "summary")[number % 4])
        self.live.add(text)

    def store_edit(self, number: int) -> None:
        if ids := sorted(self.store.entries):
            entry_id = ids[number % len(ids)]
            self.live.discard(self.store.entries[entry_id].text)
            self.old_entries.append(self.store.entries[entry_id].text)
            text = self.new_text()
            self.store.edit(entry_id, text)
            self.live.add(text)

    def store_drop(self, number: int) -> None:
        if ids := sorted(self.store.entries):
            self.live.discard(self.store.entries[ids[number % len(ids)]].text)
            self.store.drop(ids[number % len(ids)])

    def file_add(self, number: int) -> None:
        path = self.root / f"entries/chat {number % 2}/facts/new {number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            text = self.new_text()
            path.write_bytes(b"---\nrole: memory\n---\n" + text.encode())
            self.live.add(text)

    def file_edit(self, number: int, text: str | None = None) -> None:
        if files := self.files():
            path = files[number % len(files)]
            with suppress(BrokenFile):
                content = parse_file(path.read_bytes())
                self.live.discard(content.text)
                self.old_files.append(content.text)
                text = text or self.new_text()
                path.write_bytes(render_file(replace(content, text=text)))
                self.live |= {text} - set(self.agreed.values())

    def store_revert(self, number: int) -> None:
        if self.old_entries and (ids := sorted(self.store.entries)):
            entry_id, text = ids[number % len(ids)], self.old_entries[number % len(self.old_entries)]
            self.live.discard(self.store.entries[entry_id].text)
            self.store.edit(entry_id, text)
            self.live |= {text} - set(self.agreed.values())

    def file_revert(self, number: int) -> None:
        if self.old_files:
            self.file_edit(number, self.old_files[number % len(self.old_files)])

    def file_delete(self, number: int) -> None:
        if files := self.files():
            path = files[number % len(files)]
            self.live.discard(self.text_of(path))
            path.unlink()

    def file_move(self, number: int) -> None:
        if files := self.files():
            path = files[number % len(files)]
            target = path.parent.parent / "moved" / f"{number}.md"
            target.parent.mkdir(exist_ok=True)
            if not target.exists() and parse_id(path):
                path.rename(target)

    def file_copy(self, number: int) -> None:
        if files := self.files():
            path = files[number % len(files)]
            if not (target := path.with_name(f"copy {number}.md")).exists():
                shutil.copy(path, target)

    def file_strip(self, number: int) -> None:
        """Remove the front matter."""
        if files := self.files():
            path = files[number % len(files)]
            path.write_text(self.text_of(path) + "\n")

    def sync(self, fuse: Fuse) -> SyncReport | None:
        with PosixMirrorFiles(str(self.root)) as files, suppress(Killed):
            return sync_mirror(Mirror(fuse.guard(files), fuse.guard(self.store), "tenant/user"))
        return None

    def note_agreement(self) -> None:
        files = {(parse_id(path), self.text_of(path)) for path in self.files()}
        entries = self.store.entries.values()
        self.agreed |= {entry.id: entry.text for entry in entries if (entry.id, entry.text) in files}


def parse_id(path: Path) -> str | None:
    with suppress(BrokenFile):
        return parse_file(path.read_bytes()).id
    return None


NAMES = [name for name in vars(World) if name.startswith(("store_", "file_"))]
EDIT = st.tuples(st.sampled_from(NAMES), st.integers(0, 7))
RUN = st.builds(Fuse, st.none() | st.integers(1, 12), st.booleans())


def snapshot_files(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.glob("entries/**/*") if path.is_file()}
