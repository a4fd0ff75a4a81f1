"""The result of a parser, and the building of text from a document that has structure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.sources.document import DocumentKind, Section
from app.domain.sources.rejection import Rejection, RejectionReason
from app.domain.sources.source_policy import ParsingPolicy

TITLE = 200
"""The most characters of a title in a heading path."""

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class Rejected(Exception):
    """A parser rejects the document."""

    def __init__(self, reason: RejectionReason, detail: str = "") -> None:
        super().__init__(detail)
        self.rejection = Rejection(reason, detail)


@dataclass(frozen=True, slots=True)
class Request:
    """A document to parse. `extension` is that of its name, in lower case."""

    content: bytes
    kind: DocumentKind
    extension: str
    policy: ParsingPolicy


@dataclass(frozen=True, slots=True)
class Draft:
    """A document before it is split. `sections` cover the text."""

    text: str
    sections: Sequence[Section]
    encoding: str | None = None


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading that begins at character `start`; level 1 is the highest."""

    start: int
    level: int
    title: str


def clean_text(text: str) -> str:
    """Replace what PostgreSQL cannot store, NUL and lone surrogates, by U+FFFD."""
    return UNSTORABLE.sub("\ufffd", text)


def build_sections(length: int, headings: Sequence[Heading]) -> list[Section]:
    """Return the sections that `headings`, in order, make of a text with `length` characters."""
    starts = [*(heading.start for heading in headings), length]
    sections = [Section(0, starts[0])] if starts[0] else []
    path: list[Heading] = []
    for heading, end in zip(headings, starts[1:], strict=True):
        path = [*(above for above in path if above.level < heading.level), heading]
        sections.append(Section(heading.start, end, tuple(above.title for above in path)))
    return sections


def make_title(text: str) -> str:
    """Return a title on one line, at most TITLE characters long."""
    return " ".join(text[: 4 * TITLE].split())[:TITLE]


class TextBuilder:
    """A builder of text in blocks, with a blank line between them; headings have Markdown's marks."""

    def __init__(self, policy: ParsingPolicy) -> None:
        self._limit = policy.max_characters
        self._parts: list[str] = []
        self._length = 0
        self._block: list[str] = []
        self._block_length = 0
        self._headings: list[Heading] = []

    def add_text(self, text: str) -> None:
        """Add text to the block. Raise Rejected if the document then has too much text."""
        self._block.append(text)
        self._block_length += len(text)
        check_length(self._length + self._block_length, self._limit)

    def end_block(self, level: int = 0, verbatim: bool = False) -> None:
        """End the block; one without text is dropped.

        `level` 1 to 6 makes it a heading. White space is collapsed within each line unless the block is `verbatim`.
        """
        text = clean_text("".join(self._block))
        self._block = []
        self._block_length = 0
        if not verbatim:
            text = "\n".join(filter(None, (" ".join(line.split()) for line in text.split("\n"))))
        text = text.strip("\n")
        if not text.strip():
            return
        if level:
            text = f"{'#' * min(level, 6)} {' '.join(text.split())}"
            self._headings.append(Heading(self._length, level, make_title(text.lstrip("# "))))
        self._parts.append(f"{text}\n\n")
        self._length += len(text) + 2

    def finish_draft(self) -> Draft:
        """Return the document. Raise Rejected if it has too much text or none."""
        self.end_block()
        check_length(self._length, self._limit)
        return Draft("".join(self._parts), build_sections(self._length, self._headings))


def check_length(length: int, limit: int) -> None:
    """Raise Rejected if a text of `length` characters is beyond the limit."""
    if length > limit:
        raise Rejected(RejectionReason.TOO_MUCH_TEXT, f"at most {limit} characters")
