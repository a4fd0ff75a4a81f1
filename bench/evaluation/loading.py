"""Reading of data files: the format of each, its digest, and which conversations and roles are measured."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from bench.evaluation import public_sets
from bench.evaluation.data import Collector, Conversation, DataError, DataSet, Question, Read, Unit

MOST_BYTES: Final = 1 << 30
MOST_LINE_BYTES: Final = 4 << 20
AUTO: Final = "auto"
JSONL: Final = "jsonl"
CONVERSATIONS: Final = "conversations"
NOT_STORED: Final = "questions whose evidence is not stored"
BEAM_FILES: Final = ("chat.json", "probing_questions/probing_questions.json")
READERS: Final[dict[str, Callable[[str, Any], Iterator[Read]]]] = {
    CONVERSATIONS: public_sets.read_conversations,
    "locomo": public_sets.read_locomo,
    "realtalk": public_sets.read_realtalk,
    "longmemeval": public_sets.read_longmemeval,
    "beam": public_sets.read_beam,
}
FORMATS: Final = (AUTO, JSONL, *READERS)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that was read: its name, the SHA-256 of its bytes, and its format."""

    name: str
    sha256: str
    format: str


def load_data(paths: Sequence[Path], format_: str = AUTO) -> tuple[DataSet, list[DataFile]]:
    """Read the files, or folders of BEAM. Lines of several files may be of one conversation. Raise DataError."""
    collector = Collector()
    files: list[DataFile] = []
    for path in paths:
        files += _read_path(collector, path, format_)
    return collector.finish(), files


def _read_path(collector: Collector, path: Path, format_: str) -> list[DataFile]:
    if path.is_dir():
        parts = [path / name for name in BEAM_FILES]
        if format_ not in (AUTO, "beam") or not all(part.is_file() for part in parts):
            raise DataError(f"{path}: a folder is read only as a chat of BEAM, with {' and '.join(BEAM_FILES)}")
        texts = [_read_bytes(part) for part in parts]
        data = [_parse_json(str(part), text) for part, text in zip(parts, texts, strict=True)]
        _collect(collector, "beam", path.name, tuple(data))
        return [DataFile(str(part), _digest(text), "beam") for part, text in zip(parts, texts, strict=True)]
    content = _read_bytes(path)
    if format_ == JSONL or (format_ == AUTO and path.suffix != ".json"):
        collector.add_all(_read_lines(path.name, content))
        return [DataFile(path.name, _digest(content), JSONL)]
    data = _parse_json(path.name, content)
    found = _recognise(data)
    if found is None or format_ not in (AUTO, found, *_also_named(found)):
        wanted = f"the format {format_}" if format_ != AUTO else f"one of the formats {', '.join(FORMATS[1:])}"
        raise DataError(f"{path.name}: the JSON does not look like {wanted}; docs/evaluation.md describes them")
    _collect(collector, found, path.name, data)
    return [DataFile(path.name, _digest(content), found)]


def _read_bytes(path: Path) -> bytes:
    if path.stat().st_size > MOST_BYTES:
        raise DataError(f"{path}: larger than {MOST_BYTES >> 20} MiB; split it")
    return path.read_bytes()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _parse_json(name: str, content: bytes) -> Any:
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        raise DataError(f"{name}:{error.lineno}: not JSON: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: not UTF-8") from error
    except RecursionError as error:
        raise DataError(f"{name}: nested too deeply") from error


def _read_lines(name: str, content: bytes) -> Iterator[Read]:
    """Yield the lines of the native form. Empty lines are allowed."""
    for number, line in enumerate(content.split(b"\n"), start=1):
        place = f"{name}:{number}"
        if len(line) > MOST_LINE_BYTES:
            raise DataError(f"{place}: a line of more than {MOST_LINE_BYTES >> 20} MiB")
        if line.strip():
            try:
                yield place, json.loads(line)
            except (UnicodeDecodeError, RecursionError, ValueError) as error:
                raise DataError(f"{place}: not a JSON object in UTF-8: {error}") from error


def _recognise(data: Any) -> str | None:
    """Return the format of a JSON document, None for an unknown one."""
    if isinstance(data, dict):
        return "realtalk" if "qa" in data and any(key.startswith("session_") for key in data) else None
    first = data[0] if isinstance(data, list) and data else None
    if not isinstance(first, dict):
        return None
    keys = {CONVERSATIONS: {"conv", "turns", "qs"}, "locomo": {"sample_id", "conversation", "qa"}}
    keys["longmemeval"] = {"question_id", "haystack_sessions", "haystack_dates"}
    return next((name for name, needed in keys.items() if needed <= first.keys()), None)


def _also_named(found: str) -> tuple[str, ...]:
    """Return the other formats that a user may name for one: files of the plain conversations were made of two sets."""
    return ("beam", "realtalk") if found == CONVERSATIONS else ()


def _collect(collector: Collector, found: str, name: str, data: Any) -> None:
    """Add what a public file has. A file of another shape is an error that names the file."""
    try:
        collector.add_all(READERS[found](name, data))
    except DataError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{name}: not a file of {found}: {type(error).__name__}: {error}") from error


def choose_conversations(data: DataSet, places: Sequence[int]) -> DataSet:
    """Return the conversations at these places, counted from 1; all if none is named. Raise DataError."""
    held = len(data.conversations)
    if wrong := [place for place in places if not 1 <= place <= held]:
        raise DataError(f"there is no conversation {wrong[0]}: the data has {held}")
    chosen = [data.conversations[place - 1] for place in places] if places else data.conversations
    asked = [one for one in chosen if one.questions]
    ids = {one.id for one in asked}
    return DataSet(asked, data.left_out, [one for one in data.conversations if one.id not in ids])


def keep_roles(data: DataSet, roles: Collection[str]) -> DataSet:
    """Return the data with turns of these roles alone; all memories stay. No roles: all turns.

    Evidence of other turns does not count. A question that loses all its evidence is left out and counted.
    """
    left_out = data.left_out.copy()
    kept = []
    for conversation in data.conversations:
        units = _units_of_roles(conversation, roles)
        stored = {unit.id for unit in units}
        questions = [replace(one, evidence=one.evidence & stored) for one in conversation.questions]
        pairs = zip(questions, conversation.questions, strict=True)
        found: list[Question] = [one for one, before in pairs if one.evidence or not before.evidence]
        left_out[NOT_STORED] += len(questions) - len(found)
        kept.append(Conversation(conversation.id, units, found))
    spare = [Conversation(one.id, _units_of_roles(one, roles)) for one in data.spare]
    return DataSet(kept, +left_out, spare)


def _units_of_roles(conversation: Conversation, roles: Collection[str]) -> list[Unit]:
    return [unit for unit in conversation.units if not roles or unit.role is None or unit.role in roles]


def load_chosen(
    paths: Sequence[Path], format_: str, places: Sequence[int], roles: Collection[str]
) -> tuple[DataSet, list[DataFile]]:
    """Read the data and keep the chosen conversations and roles. Raise DataError if no question is left."""
    data, files = load_data(paths, format_)
    data = keep_roles(choose_conversations(data, places), roles)
    if not data.question_count:
        raise DataError("no question is left: " + ", ".join(f"{reason}: {n}" for reason, n in data.left_out.items()))
    return data, files
