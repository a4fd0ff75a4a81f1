"""The program of a parser's process: `python -m app.providers.parsing.child <parent's pid> <module with PARSERS>`.

It reads documents from standard input and writes what they contain to standard output, until the input ends.

A parser's library loads with the first document of its kind.
"""

import ctypes
import math
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import BinaryIO, Final, Protocol, TypeAlias

from semantic_text_splitter import CodeSplitter, MarkdownSplitter, TextSplitter

from app.domain.sources.chunking import SectionFinder, cut_segments, extend_back, join_short
from app.domain.sources.document import DocumentKind
from app.domain.sources.rejection import Rejection, RejectionReason
from app.domain.sources.source_policy import ParsingPolicy
from app.providers.parsing.draft import Draft, Rejected, Request
from app.providers.parsing.framing import LENGTHS, decode_request, encode_draft, encode_rejection
from app.providers.parsing.sandbox import lock_process

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
Parser: TypeAlias = Callable[[Request], Draft]


def load_parser(module: str, function: str) -> Parser:
    """Return a parser that imports its module when it is called."""

    def parse_request(request: Request) -> Draft:
        parser: Parser = getattr(import_module(f"app.providers.parsing.{module}"), function)
        return parser(request)

    return parse_request


PARSERS: Final[Mapping[DocumentKind, Parser]] = {
    DocumentKind.TEXT: load_parser("plain", "read_plain"),
    DocumentKind.CODE: load_parser("plain", "read_plain"),
    DocumentKind.MARKDOWN: load_parser("plain", "read_markdown"),
    DocumentKind.RST: load_parser("plain", "read_rst"),
    DocumentKind.HTML: load_parser("html", "read_html"),
    DocumentKind.PDF: load_parser("pdf", "read_pdf"),
    DocumentKind.DOCX: load_parser("docx", "read_docx"),
}


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


OPEN_FILES: Final = 32
PR_SET_PDEATHSIG: Final = 1
GRACE_S: Final = 2.0
"""The time after its limit at which the process ends itself if the service has not ended it."""


def confine_process(parent: int) -> None:
    """Forbid files, core dumps and, unless the user is root, processes; end with the service, whose pid is `parent`."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the service has ended")


def start_limits(policy: ParsingPolicy) -> None:
    """Limit the memory, CPU time and wall-clock time of one document. Beyond a time, the kernel ends the process."""
    if sys.platform != "darwin":  # macOS has no limit of address space
        resource.setrlimit(resource.RLIMIT_AS, (policy.max_memory_bytes, resource.RLIM_INFINITY))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = math.ceil(usage.ru_utime + usage.ru_stime + policy.max_seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, resource.RLIM_INFINITY))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, policy.max_seconds + GRACE_S)


def stop_limits() -> None:
    """Stop the timer, because the process now waits for the next document."""
    signal.setitimer(signal.ITIMER_REAL, 0)


def run_child(parent: int, module: str) -> None:
    """Parse documents until standard input ends."""
    parsers = import_module(module).PARSERS
    confine_process(parent)
    lock_process()
    source = sys.stdin.buffer
    replies = _take_stdout()
    while (request := _read_request(source)) is not None:
        start_limits(request.policy)
        reply = parse_request(request, parsers[request.kind])
        replies.write(reply)
        replies.flush()
        stop_limits()


def _take_stdout() -> BinaryIO:
    """Return standard output for replies only; what a library prints goes to standard error."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return replies


def _read_request(source: BinaryIO) -> Request | None:
    lengths = source.read(LENGTHS.size)
    if len(lengths) < LENGTHS.size:
        return None
    header, content = LENGTHS.unpack(lengths)
    return decode_request(source.read(header), source.read(content))


def parse_request(request: Request, parser: Parser) -> bytes:
    """Return the reply to a document. Every error of a parser is a rejection."""
    try:
        draft = parser(request)
        return encode_draft(draft, split_draft(draft, request))
    except Rejected as rejected:
        return encode_rejection(rejected.rejection)
    except MemoryError:
        return encode_rejection(Rejection(RejectionReason.TOO_MUCH_MEMORY))
    except Exception as error:
        detail = f"{type(error).__name__}: {error}".encode("ascii", "replace").decode()
        return encode_rejection(Rejection(RejectionReason.BROKEN, " ".join(detail.split())[:200]))


if __name__ == "__main__":
    run_child(int(sys.argv[1]), sys.argv[2])
