"""Differences of two texts, word by word, in bounded time."""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

WORD = re.compile(r"\s+|\w+|[^\w\s]")
MOST_STEPS = 100_000
CONTEXT = 80
"""Characters of unchanged text that are shown beside a changed place."""
LONGEST_CHANGE = 400
"""Characters that are shown of one removed or added piece."""
Kind = Literal["same", "removed", "added"]


class Piece(NamedTuple):
    """A run of words that both texts have, or only one of them."""

    kind: Kind
    text: str


def compare_words(old: str, new: str) -> list[Piece]:
    """Return the pieces that make `new` from `old`, in order. Very different long texts are replaced as a whole."""
    before, after = WORD.findall(old), WORD.findall(new)
    head = _common_length(before, after)
    shortest = min(len(before), len(after)) - head
    tail = min(_common_length(before[::-1], after[::-1]), shortest)
    middle = _compare_middle(before[head : len(before) - tail], after[head : len(after) - tail])
    pieces = [Piece("same", "".join(before[:head])), *middle, Piece("same", "".join(before[len(before) - tail :]))]
    return _join_pieces(pieces)


def shorten_pieces(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the changed places with some words of context. "…" stands for what is left out.

    Pieces without a change keep their beginning.
    """
    last = len(pieces) - 1
    shortened: list[Piece] = []
    for place, (kind, text) in enumerate(pieces):
        if kind != "same":
            shortened.append(Piece(kind, text if len(text) <= LONGEST_CHANGE else _begin(text, LONGEST_CHANGE) + "…"))
            continue
        begin = _begin(text, CONTEXT) if place > 0 or last == 0 else ""
        end = _end(text, CONTEXT) if place < last else ""
        whole = len(begin) + len(end) >= len(text) - 1
        shortened.append(Piece(kind, text if whole else f"{begin}…{end}"))
    return shortened


def _begin(text: str, length: int) -> str:
    """Return the beginning of a text, without the word in which it would be cut if there are words."""
    cut = text[:length]
    words = cut.rsplit(maxsplit=1)
    return cut if len(text) <= length or len(words) < 2 else words[0]


def _end(text: str, length: int) -> str:
    cut = text[-length:]
    words = cut.split(maxsplit=1)
    return cut if len(text) <= length or len(words) < 2 else words[1]


def _common_length(first: Sequence[str], second: Sequence[str]) -> int:
    for place, (left, right) in enumerate(zip(first, second, strict=False)):
        if left != right:
            return place
    return min(len(first), len(second))


def _compare_middle(before: Sequence[str], after: Sequence[str]) -> list[Piece]:
    if len(before) * len(after) > MOST_STEPS:
        return [Piece("removed", "".join(before)), Piece("added", "".join(after))]
    lengths = _common_lengths(before, after)
    pieces: list[Piece] = []
    i = j = 0
    while i < len(before) and j < len(after):
        if before[i] == after[j]:
            pieces.append(Piece("same", before[i]))
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            pieces.append(Piece("removed", before[i]))
            i += 1
        else:
            pieces.append(Piece("added", after[j]))
            j += 1
    pieces += [Piece("removed", word) for word in before[i:]]
    return pieces + [Piece("added", word) for word in after[j:]]


def _common_lengths(before: Sequence[str], after: Sequence[str]) -> list[list[int]]:
    """Return the length of the longest common subsequence of each pair of ends."""
    lengths = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i in range(len(before) - 1, -1, -1):
        row, below, word = lengths[i], lengths[i + 1], before[i]
        for j in range(len(after) - 1, -1, -1):
            row[j] = below[j + 1] + 1 if word == after[j] else max(below[j], row[j + 1])
    return lengths


def _join_pieces(pieces: Sequence[Piece]) -> list[Piece]:
    """Join neighbours of one kind; within a change, what was removed comes first."""
    joined: list[Piece] = []
    removed: list[str] = []
    added: list[str] = []

    def end_change() -> None:
        joined.extend(Piece(k, "".join(t)) for k, t in _changes(removed, added) if t)
        removed.clear()
        added.clear()

    for kind, text in pieces:
        if not text:
            continue
        if kind == "same":
            end_change()
            if joined and joined[-1].kind == "same":
                joined[-1] = Piece("same", joined[-1].text + text)
            else:
                joined.append(Piece("same", text))
        else:
            (removed if kind == "removed" else added).append(text)
    end_change()
    return joined


def _changes(removed: list[str], added: list[str]) -> list[tuple[Kind, list[str]]]:
    return [("removed", removed), ("added", added)]
