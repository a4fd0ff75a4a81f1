"""The settings of sources."""

import hashlib
from dataclasses import dataclass
from typing import Annotated, Final

from app.domain.settable import SETTABLE
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
    max_files: int = 100_000
    tenant_bytes: int = 2_048 * MIB
    tenant_chunks: int = 500_000
    answer_chunks: Annotated[int, SETTABLE] = 5
    answer_share: Annotated[float, SETTABLE] = 0.6
    profile: Annotated[str, SETTABLE] = "documents"
    min_relevance: Annotated[float, SETTABLE] = 0.05
    turn_characters: int = 1_600
    rescan_s: int = 600
    slice_s: int = 240

    def __post_init__(self) -> None:
        _ = self.parsing
        if not 1 <= self.max_files <= 1_000_000:
            raise ValueError("max_files must be from 1 to 1000000")
        if self.tenant_bytes < 0 or self.tenant_chunks < 0:
            raise ValueError("tenant_bytes and tenant_chunks must be at least 0")
        if not 0 <= self.answer_chunks <= 50 or not 0 <= self.answer_share <= 1:
            raise ValueError("answer_chunks must be from 0 to 50, answer_share from 0 to 1")
        if not 0 <= self.min_relevance <= 1:
            raise ValueError("min_relevance must be from 0 to 1")
        if self.turn_characters < self.chunk_size:
            raise ValueError("turn_characters must be at least chunk_size")
        if self.rescan_s < 10 or not 1 <= self.slice_s <= 3_600:
            raise ValueError("rescan_s must be at least 10, slice_s from 1 to 3600")

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
