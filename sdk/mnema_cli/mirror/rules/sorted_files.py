"""Files of a root by what they stand for: an entry, a new entry, or nothing that can be used."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mnema_cli.mirror.rules.actions import FoundFile, Refuse
from mnema_cli.mirror.rules.entries import id_of_name, place_of
from mnema_cli.mirror.rules.snapshot import Snapshot


@dataclass(slots=True)
class SortedFiles:
    """The files by id, the new files, the refused ones, and the ids that are left alone.

    An id is left alone if its file may be there but cannot be read, or if more than one file has it.
    """

    by_id: dict[str, FoundFile] = field(default_factory=dict)
    new: list[FoundFile] = field(default_factory=list)
    refused: list[Refuse] = field(default_factory=list)
    held: set[str] = field(default_factory=set)


def sort_files(
    snapshot: Snapshot, stored: set[str], files: Sequence[FoundFile], conversations: Mapping[str, str]
) -> SortedFiles:
    """Return the files sorted. `stored` are the ids of the store's entries.

    `conversations` are the ids of the conversations whose folders have shortened names.
    """
    readable = sorted((file for file in files if file.problem is None), key=lambda file: file.path)
    broken = [file for file in files if file.problem is not None]
    counts = Counter(file.id for file in readable if file.id is not None)
    homes = {record.path: entry_id for entry_id, record in snapshot.records.items()}
    result = SortedFiles(refused=[Refuse(file.path, file.problem or "") for file in broken])
    result.held.update(_hidden_ids(snapshot, [file.path for file in broken]))
    for file in readable:
        home = homes.get(file.path)
        if (
            file.id is None and home is not None and home in stored and not counts[home]
        ):  # somebody removed the front matter
            result.by_id[home] = file
        elif file.id is None:
            _add_new(file, result, conversations)
        elif counts[file.id] == 1 or home == file.id:
            result.by_id[file.id] = file
            if home is not None and file.id not in stored and file.id not in snapshot.records:
                result.held.add(home)  # somebody mistyped the id
        else:
            result.refused.append(Refuse(file.path, _copy_reason(file.id)))
            result.held.add(file.id)
    result.held -= result.by_id.keys()
    return result


def _hidden_ids(snapshot: Snapshot, broken: Sequence[str]) -> Iterator[str]:
    """Yield the ids whose files are broken, or lie in a folder that cannot be read."""
    unreadable = set(broken)
    for entry_id, record in snapshot.records.items():
        parts = record.path.split("/")
        if any("/".join(parts[:count]) in unreadable for count in range(1, len(parts) + 1)):
            yield entry_id
    yield from filter(None, map(id_of_name, broken))


def _copy_reason(entry_id: str) -> str:
    return f"another file has the id {entry_id} too; remove the line `id:` from the copy to make a new entry of it"


def _add_new(file: FoundFile, result: SortedFiles, conversations: Mapping[str, str]) -> None:
    reason = _refusal_reason(file, conversations)
    if reason is None:
        result.new.append(file)
    else:
        result.refused.append(Refuse(file.path, reason))


def _refusal_reason(file: FoundFile, conversations: Mapping[str, str]) -> str | None:
    content = file.content
    place = place_of(file.path, conversations)
    if content is None or not content.text.strip():
        return "the file has no text yet; write some, or delete the file"
    if place is None and content.conversation_id is None:
        return "the file is in no conversation; move it into entries/<conversation>/facts"
    if content.conversation_id is None and place and place[0] is None:
        return (
            "the name of the folder is shortened and does not tell the conversation; write the line `conversation_id:`"
        )
    if (content.role or (place and place[1])) is None:
        return "the file has no role; move it into facts, turns/user or turns/assistant"
    return None
