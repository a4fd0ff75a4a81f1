"""Splitting of a document into chunks along its structure."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Final, Protocol

from semantic_text_splitter import CodeSplitter, MarkdownSplitter, TextSplitter

from app.domain.sources.chunking import SectionFinder, cut_segments, extend_back, join_short
from app.domain.sources.document import DocumentKind
from app.domain.sources.rejection import RejectionReason
from app.providers.parsing.draft import Draft, Rejected, Request

GRAMMARS: Final = {
    **dict.fromkeys(("py", "pyi"), ("tree_sitter_python", "language")),
    **dict.fromkeys(("js", "jsx", "mjs"), ("tree_sitter_javascript", "language")),
    "ts": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "java": ("tree_sitter_java", "language"),
    "go": ("tree_sitter_go", "language"),
    "rs": ("tree_sitter_rust", "language"),
    **dict.fromkeys(("c", "h"), ("tree_sitter_c", "language")),
    **dict.fromkeys(("cc", "cpp", "cxx", "hh", "hpp"), ("tree_sitter_cpp", "language")),
}
"""The module and function of each extension's grammar. Other code is split at blank lines, then lines."""

MARKED_UP: Final = frozenset({DocumentKind.MARKDOWN, DocumentKind.HTML, DocumentKind.DOCX})


class Splitter(Protocol):
    """A splitter of text that knows where each chunk begins."""

    def chunk_indices(self, text: str) -> Sequence[tuple[int, str]]:
        """Return the chunks, each with its first character's offset."""


def split_draft(draft: Draft, request: Request) -> list[tuple[int, int, int]]:
    """Return start, end and the section's index of each chunk, in order. Raise Rejected if there are too many or none.

    The overlap is added here. The splitter's own overlap takes minutes for a megabyte of line ends.
    """
    finder = SectionFinder(draft.sections)
    chunks: list[tuple[int, int, int]] = []
    for start, end in _split_segments(draft, request):
        chunks.append((start, end, finder.find_section(start, end)))
        if len(chunks) > request.policy.max_chunks:
            raise Rejected(RejectionReason.TOO_MANY_CHUNKS, f"at most {request.policy.max_chunks}")
    if not chunks:
        raise Rejected(RejectionReason.EMPTY)
    return chunks


def _split_segments(draft: Draft, request: Request) -> Iterator[tuple[int, int]]:
    policy = request.policy
    text = draft.text
    size = policy.chunk_size - policy.chunk_overlap
    splitter = choose_splitter(request, size)
    for first, last in cut_segments(text, draft.sections, size):
        first += text.startswith("\ufeff", first, 1)
        found = [(first + at, first + at + len(chunk)) for at, chunk in splitter.chunk_indices(text[first:last])]
        least = None
        for start, end in join_short(found, policy.chunk_size):
            overlap = 0 if least is None else min(policy.chunk_overlap, policy.chunk_size - (end - start))
            yield extend_back(text, start, least or start, overlap), end
            least = start


def choose_splitter(request: Request, size: int) -> Splitter:
    """Return the splitter for a kind of document, or a language, that makes chunks of at most `size` characters."""
    if request.kind in MARKED_UP:
        return MarkdownSplitter(size)
    if request.kind is DocumentKind.CODE and request.extension in GRAMMARS:
        module, function = GRAMMARS[request.extension]
        return CodeSplitter(getattr(import_module(module), function)(), size)
    return TextSplitter(size)
