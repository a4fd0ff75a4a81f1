"""Documents that attack the real parsers: each is rejected or harmless, and the next document works."""

import os
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from app.domain.sources.document import ParsedDocument
from app.domain.sources.rejection import Rejection, RejectionReason
from app.domain.sources.source_policy import ParsingPolicy
from app.providers.parsing.pool import PooledDocumentParser
from tests.parsing.made_documents import change_parts, make_bomb_pdf, make_docx, make_pdf

MIB = 1 << 20
DOCX = make_docx([(1, "Top"), (0, "Good")])


async def reject(
    parser: PooledDocumentParser, content: bytes, name: str, policy: ParsingPolicy | None = None
) -> Rejection:
    result = await parser.parse_document(content, name, policy or ParsingPolicy(max_seconds=30))
    assert isinstance(result, Rejection), str(result)[:300]
    await accept(parser, b"# Next\n\nworks", "next.md")
    return result


async def accept(
    parser: PooledDocumentParser, content: bytes, name: str, policy: ParsingPolicy | None = None
) -> ParsedDocument:
    result = await parser.parse_document(content, name, policy or ParsingPolicy(max_seconds=30))
    assert isinstance(result, ParsedDocument), result
    return result


async def test_a_sparse_file_is_refused_unread(parser: PooledDocumentParser, tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    with path.open("wb") as file:
        file.truncate(2 << 30)
    result = await parser.read_file(path, ParsingPolicy())
    assert isinstance(result, Rejection)
    assert result.reason is RejectionReason.TOO_LARGE


async def test_only_regular_files_are_read(parser: PooledDocumentParser, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "link.txt").symlink_to("/etc/passwd")
    (tmp_path / "good\n.txt").write_bytes(b"good")
    reasons = {}
    for name in ("pipe.txt", "link.txt", "missing.txt", "."):
        result = await parser.read_file(tmp_path / name, ParsingPolicy())
        assert isinstance(result, Rejection)
        reasons[name] = result.reason
    assert reasons == {
        "pipe.txt": RejectionReason.NOT_A_FILE,
        "link.txt": RejectionReason.UNREADABLE,
        "missing.txt": RejectionReason.UNREADABLE,
        ".": RejectionReason.NOT_A_FILE,
    }
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        assert await parser.read_file(Path("good\n.txt"), ParsingPolicy(), dir_fd=folder) == b"good"
        endless = await parser.read_file(Path("/proc/self/mountinfo"), ParsingPolicy(max_bytes=1))
    finally:
        os.close(folder)
    assert isinstance(endless, Rejection)
    assert endless.reason is RejectionReason.TOO_LARGE


@pytest.mark.long
async def test_zip_bombs(parser: PooledDocumentParser) -> None:
    large = change_parts(DOCX, {"word/media/image.bin": bytes(80 * MIB)})
    assert len(large) < MIB
    assert (await reject(parser, large, "a.docx")).reason is RejectionReason.EXPANDS_TOO_MUCH
    many = BytesIO()
    with zipfile.ZipFile(many, "w") as archive:
        for number in range(10_001):
            archive.writestr(str(number), b"")
    assert (await reject(parser, many.getvalue(), "a.docx")).reason is RejectionReason.EXPANDS_TOO_MUCH


@pytest.mark.long
async def test_a_part_never_unpacks_beyond_its_header(parser: PooledDocumentParser) -> None:
    bomb = change_parts(DOCX, {"word/document.xml": b" " * (80 * MIB)})
    with zipfile.ZipFile(BytesIO(bomb)) as archive:
        size = archive.getinfo("word/document.xml").file_size
    lying = bomb.replace(size.to_bytes(4, "little"), (1000).to_bytes(4, "little"))
    assert lying != bomb
    assert (await reject(parser, lying, "a.docx")).reason is RejectionReason.BROKEN


@pytest.mark.long
async def test_a_nested_zip_is_never_opened(parser: PooledDocumentParser) -> None:
    inner = BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb", bytes(200 * MIB))
    nested = change_parts(DOCX, {"word/embeddings/inner.zip": inner.getvalue()})
    assert "Good" in (await accept(parser, nested, "a.docx")).document.text
    result = await reject(parser, inner.getvalue(), "a.docx", ParsingPolicy(max_unpacked_bytes=512 * MIB))
    assert result.reason is RejectionReason.BROKEN


async def test_entities_are_not_expanded(parser: PooledDocumentParser, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the-secret")
    word = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    laughs = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 12))
    for definitions, entity in (
        (f'<!ENTITY l0 "ha">{laughs}', "l11"),
        (f'<!ENTITY x SYSTEM "{secret.as_uri()}">', "x"),
        ('<!ENTITY % p SYSTEM "http://127.0.0.1:9/x.dtd"> %p;', "amp"),
    ):
        xml = (
            f'<?xml version="1.0"?><!DOCTYPE d [{definitions}]><w:document {word}><w:body><w:p><w:r>'
            f"<w:t>Good &{entity};</w:t></w:r></w:p></w:body></w:document>"
        )
        result = await parser.parse_document(
            change_parts(DOCX, {"word/document.xml": xml.encode()}), "a.docx", ParsingPolicy(max_seconds=20)
        )
        if isinstance(result, ParsedDocument):
            assert "the-secret" not in result.document.text
            assert len(result.document.text) < 100
        else:
            assert result.reason is RejectionReason.BROKEN
    await accept(parser, DOCX, "a.docx")


async def test_deep_xml(parser: PooledDocumentParser) -> None:
    deep = b"<a>" * 200_000 + b"</a>" * 200_000
    result = await reject(parser, change_parts(DOCX, {"word/document.xml": deep}), "a.docx")
    assert result.reason is RejectionReason.BROKEN


@pytest.mark.long
async def test_pdf_with_too_many_pages(parser: PooledDocumentParser) -> None:
    result = await reject(parser, make_pdf(["x"] * 5_000), "a.pdf", ParsingPolicy(max_seconds=60))
    assert result.reason is RejectionReason.TOO_MANY_PAGES
    assert "5000" in result.detail


@pytest.mark.long
async def test_pdf_with_a_password(parser: PooledDocumentParser) -> None:
    assert (await reject(parser, make_pdf(["x"], "secret"), "a.pdf")).reason is RejectionReason.ENCRYPTED
    ole = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(2_000)
    assert (await reject(parser, ole, "a.docx")).reason is RejectionReason.ENCRYPTED


@pytest.mark.long
async def test_pdf_with_a_broken_cross_reference(parser: PooledDocumentParser) -> None:
    good = make_pdf(["Readable"])
    place = good.index(b"startxref\n") + 10
    repaired = await accept(parser, good[:place] + b"7" + good[place + 1 :], "a.pdf")
    assert repaired.document.text.strip() == "Readable"
    for broken in (
        good[:300],
        good.replace(b"startxref", b"startxxxx"),
        good.replace(b"/Pages", b"/Pagxs"),
        b"%PDF-1.7\n",
        b"no pdf at all",
    ):
        assert (await reject(parser, broken, "a.pdf")).reason in (RejectionReason.BROKEN, RejectionReason.EMPTY)


@pytest.mark.long
async def test_pdf_with_a_stream_bomb(parser: PooledDocumentParser) -> None:
    bomb = make_bomb_pdf(500 * MIB)
    assert len(bomb) < MIB
    assert (await reject(parser, bomb, "a.pdf")).reason is RejectionReason.EXPANDS_TOO_MUCH


@pytest.mark.long
async def test_html_with_a_million_nested_tags(parser: PooledDocumentParser) -> None:
    html = b"<p>before</p>" + b"<div>" * 1_000_000 + b"deep" + b"</div>" * 1_000_000 + b"<p>after</p>"
    result = await parser.parse_document(html, "a.html", ParsingPolicy(max_seconds=60))
    assert isinstance(result, ParsedDocument), result
    assert result.document.text.split() == ["before", "deep", "after"]
    unclosed = await parser.parse_document(b"<b><i>" * 500_000 + b"deep", "a.html", ParsingPolicy(max_seconds=60))
    assert isinstance(unclosed, ParsedDocument), unclosed
    assert unclosed.document.text.split() == ["deep"]
    await accept(parser, b"<p>next", "next.html")


async def test_one_line_of_100_megabytes(parser: PooledDocumentParser) -> None:
    line = b"x" * (100 * MIB)
    assert (await reject(parser, line, "a.txt")).reason is RejectionReason.TOO_LARGE
    larger = ParsingPolicy(max_bytes=200 * MIB, max_seconds=30)
    assert (await reject(parser, line, "a.txt", larger)).reason is RejectionReason.TOO_MUCH_TEXT


@pytest.mark.long
@pytest.mark.parametrize(
    "unit", ["x", "word ", "\n", " ", "# ", "> ", "- ", "[a](", "`", "e\u0301", "😀", "=\n", "<div>"]
)
async def test_text_without_structure_is_split_in_time(parser: PooledDocumentParser, unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    for name in ("a.md", "a.txt", "a.rst", "a.html"):
        result = await parser.parse_document(text.encode(), name, ParsingPolicy(max_seconds=30))
        assert isinstance(result, ParsedDocument) or result.reason is RejectionReason.EMPTY, (name, result)


async def test_too_many_chunks(parser: PooledDocumentParser) -> None:
    result = await reject(parser, b"word " * 50_000, "a.txt", ParsingPolicy(max_chunks=100, max_seconds=30))
    assert result.reason is RejectionReason.TOO_MANY_CHUNKS
