"""The program of a parser's process: `python -m app.providers.parsing.child <parent's pid> <module with PARSERS>`.

It reads documents from standard input and writes what they contain to standard output, until the input ends.
"""

import os
import sys
from importlib import import_module
from typing import BinaryIO

from app.domain.sources.rejection import Rejection, RejectionReason
from app.providers.parsing.chunking import split_draft
from app.providers.parsing.confinement import confine_process, start_limits, stop_limits
from app.providers.parsing.draft import Rejected, Request
from app.providers.parsing.framing import LENGTHS, decode_request, encode_draft, encode_rejection
from app.providers.parsing.parsers import Parser
from app.providers.parsing.sandbox import lock_process


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
