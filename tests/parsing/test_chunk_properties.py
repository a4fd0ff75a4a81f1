"""Properties of chunks, for any text, kind and size."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.sources.chunking import SEGMENT, cut_long, extend_back, join_short
from app.domain.sources.document import DocumentKind, ParsedDocument
from app.domain.sources.rejection import Rejection, RejectionReason
from app.domain.sources.source_policy import ParsingPolicy
from app.providers.parsing.child import PARSERS, parse_request
from app.providers.parsing.draft import Request
from app.providers.parsing.framing import LENGTHS, decode_reply, decode_request, encode_request
from tests.effort import tries

PIECES = st.sampled_from(
    [
        *(
            "# Title\n",
            "## Sub\r\n",
            "Title\n=====\n",
            "Sub\n---\n",
            "\n\n",
            "\r\n",
            "\r",
            "\n",
            " ",
            "\t",
            "- item\n",
            "> q\n",
        ),
        *("```py\ncode()\n```\n", "|a|b|\n|-|-|\n|1|2|\n", "<h1>x</h1>", "<p>", "</div>", "&amp;", "<pre>\n a\n</pre>"),
        *(
            "def f(x):\n    return x\n\n\n",
            "class A:\n",
            "}",
            "{",
            "word ",
            "Sentence one. Two! ",
            "é",
            "e\u0301",
            "😀",
        ),
        *("👩‍👩‍👧", "漢字", "\ufeff", "\u2028", "\x85", "\x1c", "\u200b", "x" * 120),
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=20), max_size=80).map("".join)
KINDS = {
    "txt": DocumentKind.TEXT,
    "py": DocumentKind.CODE,
    "sql": DocumentKind.CODE,
    "md": DocumentKind.MARKDOWN,
    "rst": DocumentKind.RST,
    "html": DocumentKind.HTML,
}


@st.composite
def policies(draw: st.DrawFn) -> ParsingPolicy:
    size = draw(st.integers(50, 400))
    return ParsingPolicy(chunk_size=size, chunk_overlap=draw(st.integers(0, size // 2)))


def parse(request: Request) -> ParsedDocument | Rejection:
    """Parse in this process, through the same frames as between processes."""
    frame = encode_request(request)
    header, _ = LENGTHS.unpack(frame[: LENGTHS.size])
    sent = decode_request(frame[LENGTHS.size : LENGTHS.size + header], request.content)
    assert sent == request
    reply = parse_request(sent, PARSERS[request.kind])
    header, body = LENGTHS.unpack(reply[: LENGTHS.size])
    assert len(reply) == LENGTHS.size + header + body
    return decode_reply(reply[LENGTHS.size :][:header], reply[LENGTHS.size + header :], request)


@pytest.mark.long
@settings(max_examples=tries(800), deadline=None)
@given(TEXTS, st.sampled_from(sorted(KINDS)), policies())
def test_chunks_are_the_text_in_order(text: str, extension: str, policy: ParsingPolicy) -> None:
    request = Request(text.encode("utf-8", "replace"), KINDS[extension], extension, policy)
    parsed = parse(request)
    assert parse(request) == parsed
    if isinstance(parsed, Rejection):
        assert parsed.reason in (RejectionReason.EMPTY, RejectionReason.NOT_TEXT), parsed
        visible = text.removeprefix("\ufeff").strip()
        assert extension == "html" or not visible or "\0" in text
        return
    whole, chunks = parsed.document.text, parsed.chunks
    if extension != "html":
        assert whole.encode() == request.content
    assert all(whole[chunk.start : chunk.end] == chunk.text for chunk in chunks)
    assert all(0 < len(chunk.text) <= policy.chunk_size for chunk in chunks)
    assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
    covered = 0
    for chunk in chunks:
        assert not whole[covered : chunk.start].removeprefix("\ufeff").strip()
        assert chunk.end > covered
        assert covered - chunk.start <= policy.chunk_overlap
        covered = chunk.end
    assert not whole[covered:].strip()
    assert all(earlier.start < later.start for earlier, later in pairwise(chunks))
    sections = parsed.document.sections
    assert [section.start for section in sections] == [0, *(section.end for section in sections[:-1])]
    assert sections[-1].end == len(whole)


@settings(max_examples=tries(200), deadline=None)
@given(st.text(alphabet="a \n\r", max_size=50).map(lambda unit: (unit or "x") * (3 * SEGMENT // len(unit or "x"))))
def test_long_texts_are_cut_completely(text: str) -> None:
    parts = list(cut_long(text, 5, len(text)))
    assert [start for start, _ in parts] == [5, *(end for _, end in parts[:-1])]
    assert parts[-1][1] == len(text)
    assert all(0 < end - start <= SEGMENT for start, end in parts)
    assert not any(text[end - 1 : end + 1] == "\r\n" for _, end in parts)


@settings(max_examples=tries(200))
@given(st.lists(st.integers(1, 100), max_size=30), st.integers(50, 200))
def test_joined_spans_stay_small(lengths: list[int], size: int) -> None:
    spans = [(sum(lengths[:at]), sum(lengths[: at + 1])) for at in range(len(lengths)) if lengths[at] <= size]
    joined = join_short(spans, size)
    assert all(end - start <= size for start, end in joined)
    assert {start for start, _ in joined} <= {start for start, _ in spans}
    assert sum(end - start for start, end in joined) >= sum(end - start for start, end in spans)


@settings(max_examples=tries(200))
@given(st.text(alphabet="ab \n", min_size=1, max_size=60), st.data())
def test_an_overlap_begins_with_a_word(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    least, overlap = data.draw(st.integers(0, start)), data.draw(st.integers(0, 30))
    first = extend_back(text, start, least, overlap)
    assert max(least, start - overlap) <= first <= start
    assert first in (start, least) or (text[first - 1].isspace() and not text[first].isspace())


@given(st.binary(max_size=60), st.text(max_size=20))
def test_a_forged_reply_is_a_rejection(header: bytes, text: str) -> None:
    request = Request(b"x", DocumentKind.TEXT, "txt", ParsingPolicy())
    for forged in (
        header,
        b"[" * 5_000,
        b'{"encoding":null,"sections":[],"chunks":[[0,1,0]]}',
        b'{"encoding":"utf-8","sections":[[0,1,[],null]],"chunks":[]}' if text != "x" else b"",
        b'{"encoding":"rot13","sections":[],"chunks":[]}',
        b'{"encoding":null,"sections":[[0,99999,[],null]],"chunks":[]}',
        b'{"encoding":null,"sections":[[0,1,[1],null]],"chunks":[[-1,0,0]]}',
        b'{"reason":"nosuch","detail":""}',
    ):
        result = decode_reply(forged, text.encode("utf-8", "replace"), request)
        assert isinstance(result, Rejection)
        assert result.reason is RejectionReason.CRASHED
