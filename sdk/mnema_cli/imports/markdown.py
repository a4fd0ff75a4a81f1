"""Folders of Markdown notes: each list item and each paragraph is a memory.

A note may begin with YAML between two lines `---` that names user_id, category, tags, created_at and other fields.
"""

import os
import stat
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from mnema_cli.imports.notes import Skipped, scan_notes
from mnema_cli.imports.records import Bad, Choices, Found, LeftOut, hash_text, split_text

Json = dict[str, Any]
ENDINGS = (".md", ".markdown")
MAX_FILE_BYTES = 1 << 20
ALIASES = {"user": "user_id", "thread": "thread_id", "agent": "agent_id", "created": "created_at", "date": "created_at"}
UNREADABLE = (
    OSError,
    ValueError,
    ArithmeticError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    yaml.YAMLError,
)
"""The errors of a note that cannot be read. PyYAML passes on the errors of the conversions that it calls."""
NOT_REGULAR = "pipes and other files that are not regular"
TIMES = ("expires_at", "valid_from", "valid_to")
FIELDS = ("user_id", "thread_id", "agent_id", "run_id", "actor_id", "importance", "pinned", "created_at", *TIMES)


def read_markdown(path: Path, choices: Choices) -> Iterator[Found]:
    """Yield the notes of a file, or of all Markdown files below a folder, in the order of their paths."""
    for file in [path] if path.is_file() else _walk_files(path):
        name = file.name if file == path else file.relative_to(path).as_posix()
        if file.is_symlink():
            yield LeftOut("symbolic links")
        elif file.suffix.lower() in ENDINGS:
            yield from _read_note(file, name, choices)
        else:
            yield LeftOut("files that are not Markdown")


def _walk_files(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(root, name) for name in sorted(files) if not name.startswith("."))


def _read_note(file: Path, name: str, choices: Choices) -> Iterator[Found]:
    try:
        content = _read_regular(file)
        if content is None:
            yield LeftOut(NOT_REGULAR)
            return
        if len(content) > MAX_FILE_BYTES:
            yield Bad(name, f"larger than {MAX_FILE_BYTES >> 20} MiB; index it with `mnema source`")
            return
        head, text, first_line = _split_head(content.decode("utf-8-sig"))
    except UNREADABLE as error:
        yield Bad(name, f"cannot be read: {' '.join(str(error).split())}")
        return
    seen: Counter[str] = Counter()
    for part in scan_notes(text, first_line):
        if isinstance(part, Skipped):
            yield LeftOut(f"{part.what} in a note")
            continue
        for piece in split_text(part.text, choices.limits.semantic):
            seen[piece] += 1
            yield choices.make_memory(
                f"{name}:{part.line}",
                hash_text(name, piece, seen[piece]),
                piece,
                id=None,
                names=(head.get("category"), *reversed(Path(name).parts[:-1])),
                tags=_list_tags(head.get("tags")),
                metadata={"file": name, "heading": part.heading},
                **{field: head[field] for field in FIELDS if field in head},
            )


def _read_regular(file: Path) -> bytes | None:
    """Return the start of a file, a byte more than a note may have, or None if it is no regular file."""
    if not stat.S_ISREG(file.stat().st_mode):
        return None
    # without O_NONBLOCK, a pipe that took the place of the file would wait for a writer for ever
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    with open(descriptor, "rb") as stream:
        return stream.read(MAX_FILE_BYTES + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def _split_head(text: str) -> tuple[Json, str, int]:
    """Return the YAML at the head of a note, {} if there is none, the text after it and the text's first line."""
    lines = text.splitlines()
    ends = [number for number, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")]
    if not lines or lines[0].rstrip() != "---" or not ends:
        return {}, text, 1
    head = yaml.safe_load("\n".join(lines[1 : ends[0]]))
    if head is not None and not isinstance(head, dict):
        raise yaml.YAMLError("the head between the lines --- has no names with values")
    plain = {
        ALIASES.get(str(name), str(name)): value.isoformat() if isinstance(value, date) else value
        for name, value in (head or {}).items()
    }
    if strange := [name for name in FIELDS if not isinstance(plain.get(name), str | int | float | None)]:
        raise ValueError(f"{', '.join(strange)} in the head is not one text or number")
    return plain, "\n".join(lines[ends[0] + 1 :]), ends[0] + 2


def _list_tags(tags: object) -> list[str]:
    listed = tags.replace(",", " ").split() if isinstance(tags, str) else tags
    plain = [tag for tag in listed if isinstance(tag, str | int | float | date)] if isinstance(listed, list) else []
    return [str(tag).lstrip("#") for tag in plain]
