"""The settings of sources."""

import hashlib
from dataclasses import dataclass
from typing import Annotated, Final

from app.domain.settable import SETTABLE, Range, check_ranges
from app.domain.sources.policy import MIB, ParsingPolicy

PARSER_VERSION: Final = 1
"""The version of the parsers. Raise it if they cut the same file into other chunks: then all files are parsed again."""


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
