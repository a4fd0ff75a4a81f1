"""The rule that closes spans, on what people said to each other: each closing is printed, for a reader to judge.

    python -m bench.time_talk FOLDER

FOLDER has `locomo-dev.json`, `realtalk-dev.json` and `beam-dev.json`. Every two utterances of one speaker in one
conversation are compared, and so are LoCoMo's observations of one person. Of BEAM the user's turns count. It takes ten
minutes.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from multiprocessing import Pool
from pathlib import Path
from typing import Any, Final

from app.domain.recall.closing import closes_span
from app.domain.recall.statements import MAX_CHARACTERS
from app.domain.recall.supersession import Statement

_START: Final = datetime(2025, 1, 1, tzinfo=UTC)


def find_closings(texts: list[str]) -> tuple[int, list[tuple[str, str]]]:
    """Return how many pairs of one speaker's texts were compared, and those of which the later closes the earlier."""
    said = [
        Statement(text, _START + timedelta(minutes=place))
        for place, text in enumerate(texts)
        if len(text) <= MAX_CHARACTERS
    ]
    closed = [
        (older.text, newer.text)
        for place, newer in enumerate(said)
        for older in said[:place]
        if closes_span(older, newer)
    ]
    return len(said) * (len(said) - 1) // 2, closed


def load_speakers(folder: Path) -> Iterator[list[str]]:
    """Yield the texts of each speaker of each conversation, in order."""
    for name in ("locomo", "realtalk", "beam"):
        for conversation in json.loads((folder / f"{name}-dev.json").read_text(encoding="utf-8")):
            turns = conversation.get("turns", ())
            yield from _by_speaker((t["actor"], t["text"]) for t in turns if name != "beam" or t["role"] == "user")
            for part in ("conversation", "observation"):
                yield from _by_speaker(_read_sessions(conversation.get(part, {})))


def _read_sessions(part: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield speaker and text of LoCoMo's sessions: lists of turns, or of observations by person."""
    sessions = [name for name, told in part.items() if name.startswith("session_") and not isinstance(told, str)]
    for name in sorted(sessions, key=lambda one: int(one.split("_")[1])):
        told = part[name]
        if isinstance(told, list):
            yield from ((turn["speaker"], turn["text"]) for turn in told)
        else:
            yield from ((person, text) for person, observed in told.items() for text, *_places in observed)


def _by_speaker(said: Iterable[tuple[str, str]]) -> list[list[str]]:
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for speaker, text in said:
        texts[speaker].append(text)
    return list(texts.values())


def main() -> None:
    """Print the closings, and the number of pairs."""
    total = 0
    with Pool() as pool:
        for pairs, closed in pool.imap_unordered(find_closings, load_speakers(Path(sys.argv[1]))):
            total += pairs
            for older, newer in closed:
                print(f"{older}\n  closed by: {newer}")
    print(f"{total} pairs")


if __name__ == "__main__":
    main()
