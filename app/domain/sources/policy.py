"""The settings of parsing."""

from dataclasses import dataclass
from typing import Annotated

from app.domain.settable import Range, check_ranges

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
