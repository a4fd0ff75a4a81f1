"""Messages between the service and a parser's process: a frame is two lengths, JSON, and a body."""

import dataclasses
import json
import struct
from typing import Any, Final

from app.domain.sources.document import MAX_GAP, Chunk, Document, DocumentKind, ParsedDocument, Section
from app.domain.sources.rejection import Rejection, RejectionReason
from app.domain.sources.source_policy import ParsingPolicy
from app.providers.parsing.draft import Draft, Request

LENGTHS: Final = struct.Struct(">II")


def encode_request(request: Request) -> bytes:
    """Return the frame of a document to parse, without its content, which follows."""
    header = {
        "kind": request.kind,
        "extension": request.extension,
        "policy": dataclasses.asdict(request.policy),
    }
    encoded = json.dumps(header).encode()
    return LENGTHS.pack(len(encoded), len(request.content)) + encoded


def decode_request(header: bytes, content: bytes) -> Request:
    """Return the document to parse."""
    fields = json.loads(header)
    return Request(content, DocumentKind(fields["kind"]), fields["extension"], ParsingPolicy(**fields["policy"]))


def encode_draft(draft: Draft, chunks: list[tuple[int, int, int]]) -> bytes:
    """Return the frame of a parsed document. A chunk is its start, its end and the index of its section."""
    sections = [[section.start, section.end, section.heading, section.page] for section in draft.sections]
    return _encode_reply({"encoding": draft.encoding, "sections": sections, "chunks": chunks}, draft.text.encode())


def encode_rejection(rejection: Rejection) -> bytes:
    """Return the frame of a rejection."""
    return _encode_reply({"reason": rejection.reason, "detail": rejection.detail}, b"")


def _encode_reply(header: dict[str, Any], body: bytes) -> bytes:
    encoded = json.dumps(header).encode()
    return LENGTHS.pack(len(encoded), len(body)) + encoded + body


def largest_reply(policy: ParsingPolicy) -> int:
    """Return the most bytes that an honest reply has without its lengths."""
    return 4 * policy.max_characters + 4_096 * policy.max_chunks + (1 << 20)


def decode_reply(header: bytes, body: bytes, request: Request) -> ParsedDocument | Rejection:
    """Return the document or the rejection. A reply that breaks the rules is a rejection, too.

    The process read a stranger's document, so its reply is not trusted.
    """
    try:
        fields = json.loads(header)
        if "reason" in fields:
            return Rejection(RejectionReason(fields["reason"]), str(fields["detail"])[:500])
        return _decode_document(fields, body.decode(), request)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return Rejection(RejectionReason.CRASHED, "its reply is not valid")


def _decode_document(fields: dict[str, Any], text: str, request: Request) -> ParsedDocument:
    policy = request.policy
    encoding = fields["encoding"]
    if "\0" in text or len(text) > policy.max_characters or len(fields["chunks"]) > policy.max_chunks:
        raise ValueError("the text breaks the limits")
    if encoding not in (None, "utf-8", "utf-16-le", "utf-16-be"):
        raise ValueError("the encoding is unknown")
    if encoding is not None and request.content.decode(encoding) != text:
        raise ValueError("the text is not the file's")
    sections = tuple(_decode_section(values, len(text)) for values in fields["sections"])
    chunks: list[Chunk] = []
    for ordinal, (start, end, index) in enumerate(fields["chunks"]):
        least = chunks[-1].start if chunks else 0
        _check_span(start, end, least, min(len(text), start + policy.chunk_size))
        section = sections[index]
        gap = text[chunks[-1].end : start][: MAX_GAP + 1] if chunks else ""
        gap = gap if len(gap) <= MAX_GAP and not gap.strip() else ""
        chunks.append(Chunk(ordinal, start, end, text[start:end], section.heading, section.page, gap))
    return ParsedDocument(Document(request.kind, text, sections, encoding), tuple(chunks))


def _decode_section(values: list[Any], length: int) -> Section:
    start, end, heading, page = values
    _check_span(start, end, 0, length)
    if not (page is None or isinstance(page, int)) or not all(isinstance(title, str) for title in heading):
        raise TypeError("a section has a wrong type")
    return Section(start, end, tuple(heading), page)


def _check_span(start: int, end: int, least: int, most: int) -> None:
    if not isinstance(start, int) or not isinstance(end, int) or not least <= start < end <= most:
        raise ValueError("a span is outside its text")
