"""Cutting of a document: the parts that are split alone, the overlap of chunks and the section of each."""

from collections.abc import Iterator, Sequence

from app.domain.sources.document import Section

SEGMENT = 32_000
"""The longest text, in characters, that is split at once: splitters are not linear in what has no structure."""

Span = tuple[int, int]


def cut_segments(text: str, sections: Sequence[Section], size: int) -> Iterator[Span]:
    """Yield the parts of `text` that are split on their own, in order.

    A part is one section, or several short ones that fit together into a chunk of `size` characters. A section much
    shorter than a chunk, such as a lone title, goes with the next one. Pages are never joined. Sections longer than
    SEGMENT are cut, at the end of a line if possible.
    """
    start = 0
    end = 0
    page = None
    for section in sections:
        joined = section.end - start <= size or end - start < size // 4
        if end > start and (section.page != page or not joined):
            yield from cut_long(text, start, end)
            start = section.start
        if end <= start:
            start = section.start
        end = section.end
        page = section.page
    if end > start:
        yield from cut_long(text, start, end)


def cut_long(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield parts of at most SEGMENT characters that cover the text from `start` to `end`."""
    while end - start > SEGMENT:
        least = start + SEGMENT // 2
        most = start + SEGMENT
        cut = max(text.rfind("\n", least, most), text.rfind(" ", most - 1_000, most)) + 1 or most
        cut -= text[cut - 1 : cut + 1] == "\r\n"
        yield start, cut
        start = cut
    yield start, end


def join_short(spans: Sequence[Span], size: int) -> list[Span]:
    """Join each span shorter than a quarter of `size`, such as a lone title, with the next or the one before.

    Spans are in order; joined ones have at most `size` characters.
    """
    joined: list[Span] = []
    for start, end in spans:
        if joined:
            first, last = joined[-1]
            if min(last - first, end - start) < size // 4 and end - first <= size:
                joined[-1] = first, end
                continue
        joined.append((start, end))
    return joined


def extend_back(text: str, start: int, least: int, overlap: int) -> int:
    """Return where a chunk begins that repeats up to `overlap` characters before `start`, but not the one at `least`.

    It begins with a line if one begins there, else with a word, else at `start`.
    """
    first = max(least, start - overlap)
    found = text.find("\n", first, start)
    space = found if found >= 0 else text.find(" ", first, start)
    first = space + 1 if space >= 0 else start
    while first < start and text[first].isspace():
        first += 1
    return first


class SectionFinder:
    """A search for the sections of chunks, which come in the order of their ends."""

    def __init__(self, sections: Sequence[Section]) -> None:
        self._sections = sections
        self._at = 0

    def find_section(self, start: int, end: int) -> int:
        """Return the index of the section with most of the text from `start` to `end`."""
        while self._at + 1 < len(self._sections) and self._sections[self._at].end <= start:
            self._at += 1
        best = self._at
        most = 0
        index = self._at
        while index < len(self._sections) and self._sections[index].start < end:
            section = self._sections[index]
            shared = min(end, section.end) - max(start, section.start)
            best, most = (index, shared) if shared > most else (best, most)
            index += 1
        return best
