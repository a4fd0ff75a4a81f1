"""Choice of paths for new files: never the path of another file, even on a file system that ignores case."""

from collections.abc import Iterable
from dataclasses import replace

from mnema_cli.mirror.rules.actions import Action, Conflict, DeleteFile, Refuse, WriteFile
from mnema_cli.mirror.rules.entries import MirrorEntry, dated_name, entry_path, hash_text


class FreePaths:
    """The paths of a root that are taken."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {path.casefold() for path in taken}

    def place_files(self, actions: Iterable[Action]) -> list[Action]:
        """Return the actions with a path for each new file. The path of a file that is deleted first may be used."""
        placed: list[Action] = []
        for action in actions:
            match action:
                case DeleteFile(path=path):
                    self._taken.discard(path.casefold())
                    placed.append(action)
                case WriteFile(entry=entry):
                    placed.append(self._place_entry(action, entry))
                case Conflict(entry=MirrorEntry() as entry, text_hash=None):
                    placed.append(self._place_entry(action, entry))
                case _:
                    placed.append(action)
        return placed

    def _place_entry(self, action: WriteFile | Conflict, entry: MirrorEntry) -> Action:
        usual = entry_path(entry)
        dated = f"{usual.rpartition('/')[0]}/{dated_name(entry)}"
        marked = f"{dated.removesuffix('.md')}-{hash_text(entry.id)[:8]}.md"
        for path in (usual, dated, marked):
            if path.casefold() not in self._taken:
                self._taken.add(path.casefold())
                return replace(action, path=path)
        return Refuse(usual, f"other files have the paths of the entry {entry.id}; move them away")
