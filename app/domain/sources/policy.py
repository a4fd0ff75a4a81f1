"""The settings of parsing."""

from dataclasses import dataclass

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

    chunk_size: int = 1_000
    chunk_overlap: int = 100
    max_bytes: int = 32 * MIB
    max_characters: int = 5_000_000
    max_pages: int = 2_000
    max_chunks: int = 20_000
    max_unpacked_bytes: int = 64 * MIB
    max_seconds: float = 60
    max_memory_bytes: int = 1024 * MIB

    def __post_init__(self) -> None:
        if not 50 <= self.chunk_size <= 20_000 or not 0 <= self.chunk_overlap <= self.chunk_size // 2:
            raise ValueError("chunk_size must be from 50 to 20000, chunk_overlap from 0 to half of chunk_size")
        if not 1 <= self.max_bytes <= 1024 * MIB or not 1 <= self.max_unpacked_bytes <= 1024 * MIB:
            raise ValueError("max_bytes and max_unpacked_bytes must be from 1 to 1 GiB")
        if not 1 <= self.max_characters <= 100_000_000:
            raise ValueError("max_characters must be from 1 to 100 million")
        if not 1 <= self.max_pages <= 100_000 or not 1 <= self.max_chunks <= 1_000_000:
            raise ValueError("max_pages must be from 1 to 100000, max_chunks from 1 to 1000000")
        if not 0.1 <= self.max_seconds <= 3_600 or self.max_memory_bytes < 128 * MIB:
            raise ValueError("max_seconds must be from 0.1 to 3600, max_memory_bytes at least 128 MiB")
