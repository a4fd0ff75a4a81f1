"""The settings of sources."""

import hashlib
from dataclasses import dataclass
from typing import Annotated, Final

from app.domain.settable import SETTABLE, Range, check_ranges

PARSER_VERSION: Final = 1
"""The version of the parsers. Raise it if they cut the same file into other chunks: then all files are parsed again."""
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ParsingPolicy:
    """The size of chunks and the limits of one document.

    - `chunk_size`: the most characters of a chunk, its overlap included.
    - `chunk_overlap`: the most characters that a chunk repeats of the chunk before.
    - `max_bytes`: of the file. `max_characters`: of its text. `max_pages`: of a PDF. `max_chunks`: of the document.
    - `max_unpacked_bytes`: of a DOCX file's parts together, and of each compressed stream of a PDF.
    - `max_seconds`: wall-clock and CPU time of parsing, with the start of the process if a new one is needed.
    - `max_memory_bytes`: address space of the parser's process.
    """

    chunk_size: Annotated[int, Range(50, 20_000)] = 1_000
    chunk_overlap: Annotated[int, Range(0)] = 100
    max_bytes: Annotated[int, Range(1, 1024 * MIB)] = 32 * MIB
    max_characters: Annotated[int, Range(1, 100_000_000)] = 5_000_000
    max_pages: Annotated[int, Range(1, 100_000)] = 2_000
    max_chunks: Annotated[int, Range(1, 1_000_000)] = 20_000
    max_unpacked_bytes: Annotated[int, Range(1, 1024 * MIB)] = 64 * MIB
    max_seconds: Annotated[float, Range(0.1, 3_600)] = 60
    max_memory_bytes: Annotated[int, Range(128 * MIB)] = 1024 * MIB

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.chunk_overlap > self.chunk_size // 2:
            raise ValueError("chunk_overlap must be at most half of chunk_size")


@dataclass(frozen=True, slots=True)
class SourcePolicy:
    """The settings of sources (`docs/sources.md`).

    - `chunk_size`, `chunk_overlap`: characters of a chunk, and those that it repeats of the chunk before.
    - `max_file_bytes`, `max_pages`, `parse_seconds`: limits of one file.
    - `max_files`: files of one source.
    - `tenant_bytes`, `tenant_chunks`: the quota of a tenant: bytes of indexed files, and chunks.
    - `answer_chunks`: the most chunks in an answer of memory.query; `answer_share`: their most of its budget.
    - `profile`: the ranking profile of chunks. `min_relevance`: the least relevance of an answered chunk.
    - `turn_characters`: a longer turn is cut into chunks.
    - `rescan_s`: seconds after which a watched folder is scanned although nothing was noticed.
    - `slice_s`: seconds after which an index job lets others run, and then goes on.
    """

    chunk_size: int = 800
    chunk_overlap: int = 80
    max_file_bytes: int = 32 * MIB
    max_pages: int = 2_000
    parse_seconds: float = 60
    max_files: Annotated[int, Range(1, 1_000_000)] = 100_000
    tenant_bytes: Annotated[int, Range(0)] = 2_048 * MIB
    tenant_chunks: Annotated[int, Range(0)] = 500_000
    answer_chunks: Annotated[int, SETTABLE, Range(0, 50)] = 5
    answer_share: Annotated[float, SETTABLE, Range(0, 1)] = 0.6
    profile: Annotated[str, SETTABLE] = "documents"
    min_relevance: Annotated[float, SETTABLE, Range(0, 1)] = 0.05
    turn_characters: int = 1_600
    rescan_s: Annotated[int, Range(10)] = 600
    slice_s: Annotated[int, Range(1, 3_600)] = 240

    def __post_init__(self) -> None:
        check_ranges(self)
        _ = self.parsing
        if self.turn_characters < self.chunk_size:
            raise ValueError("turn_characters must be at least chunk_size")

    @property
    def parsing(self) -> ParsingPolicy:
        """The limits of the parser."""
        return ParsingPolicy(
            chunk_size=self.chunk_size,
            chunk_overlap=self.chunk_overlap,
            max_bytes=self.max_file_bytes,
            max_pages=self.max_pages,
            max_seconds=self.parse_seconds,
        )

    @property
    def fingerprint(self) -> str:
        """The settings that `files.settings` keeps: those that make the chunks, a slash, and a hash of the limits."""
        limits = hashlib.sha256(repr(self.parsing).encode()).hexdigest()[:12]
        return f"{PARSER_VERSION}:{self.chunk_size}:{self.chunk_overlap}/{limits}"
