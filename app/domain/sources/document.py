"""Documents, their sections and their chunks."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final


class DocumentKind(StrEnum):
    """The kind of a document."""

    TEXT = "text"
    MARKDOWN = "markdown"
    RST = "rst"
    CODE = "code"
    HTML = "html"
    PDF = "pdf"
    DOCX = "docx"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a document's text, from character `start` to before `end`.

    - `heading`: the titles from the highest heading down to this section's own; empty before the first heading.
    - `page`: the number of the page, from 1; None if the kind has no pages.
    """

    start: int
    end: int
    heading: tuple[str, ...] = ()
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A document's text and its sections, which are in order and cover the text.

    `encoding` is that of the file if `text` is exactly the decoded file: `text == content.decode(encoding)`, with line
    ends as they are and the byte order mark, if any, as the first character. Otherwise it is None, the text was
    extracted, and offsets count its characters.
    """

    kind: DocumentKind
    text: str
    sections: tuple[Section, ...]
    encoding: str | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a document: `text` is the document's text from character `start` to before `end`.

    `page` and `heading` are those of the section with most of the chunk. `ordinal` counts the chunks from 0. `gap` is
    the white space between the chunk before and this one; it is empty if it is longer than MAX_GAP.
    """

    ordinal: int
    start: int
    end: int
    text: str
    heading: tuple[str, ...] = ()
    page: int | None = None
    gap: str = ""


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A document with its chunks, in order. They cover the whole text except white space and the byte order mark."""

    document: Document
    chunks: tuple[Chunk, ...]


MAX_GAP: Final = 1_000
CODE_EXTENSIONS: Final = frozenset(
    (
        "bash",
        "c",
        "cc",
        "cfg",
        "clj",
        "cpp",
        "cs",
        "css",
        "cxx",
        "dart",
        "el",
        "erl",
        "ex",
        "exs",
        "f90",
        "fs",
        "go",
        "gradle",
        "graphql",
        "groovy",
        "h",
        "hh",
        "hpp",
        "hs",
        "ini",
        "java",
        "jl",
        "js",
        "json",
        "jsonl",
        "jsx",
        "kt",
        "kts",
        "less",
        "lisp",
        "lua",
        "m",
        "mjs",
        "ml",
        "mm",
        "nim",
        "nix",
        "php",
        "pl",
        "pm",
        "proto",
        "ps1",
        "py",
        "pyi",
        "r",
        "rb",
        "rs",
        "sass",
        "scala",
        "scss",
        "sh",
        "sql",
        "swift",
        "tf",
        "toml",
        "ts",
        "tsx",
        "vb",
        "vue",
        "xml",
        "yaml",
        "yml",
        "zig",
        "zsh",
    )
)
KINDS: Final = {
    **dict.fromkeys(CODE_EXTENSIONS, DocumentKind.CODE),
    **dict.fromkeys(("", "txt", "text", "log", "csv", "tsv"), DocumentKind.TEXT),
    **dict.fromkeys(("md", "markdown", "mdown", "mkd"), DocumentKind.MARKDOWN),
    **dict.fromkeys(("rst", "rest"), DocumentKind.RST),
    **dict.fromkeys(("html", "htm", "xhtml"), DocumentKind.HTML),
    "pdf": DocumentKind.PDF,
    "docx": DocumentKind.DOCX,
}
"""The kind by extension. A name without an extension, such as `README`, is text."""


def find_extension(name: str) -> str:
    """Return the extension of a file's name or path in lower case, without its dot."""
    return PurePosixPath(name).suffix[1:].lower()


def find_kind(name: str) -> DocumentKind | None:
    """Return the kind of a document by its file's name or path. None: no parser reads it."""
    return KINDS.get(find_extension(name))


def join_heading(titles: Iterable[str]) -> str:
    """Return a heading on one line, from the highest title down; an empty text without titles."""
    return " > ".join(titles)
