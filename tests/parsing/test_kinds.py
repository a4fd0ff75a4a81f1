"""The text, sections and chunks of each kind of document."""

from app.domain.sources.document import DocumentKind, ParsedDocument, find_kind
from app.domain.sources.rejection import Rejection, RejectionReason
from app.domain.sources.source_policy import ParsingPolicy
from app.providers.parsing.pool import PooledDocumentParser
from tests.parsing.made_documents import make_docx, make_pdf

POLICY = ParsingPolicy(chunk_size=100, chunk_overlap=20, max_seconds=30)


async def parse(parser: PooledDocumentParser, content: bytes | str, name: str) -> ParsedDocument:
    raw = content.encode() if isinstance(content, str) else content
    parsed = await parser.parse_document(raw, name, POLICY)
    assert isinstance(parsed, ParsedDocument), parsed
    text = parsed.document.text
    assert parsed.document.encoding is None or raw.decode(parsed.document.encoding) == text
    assert all(text[chunk.start : chunk.end] == chunk.text for chunk in parsed.chunks)
    return parsed


def headings(parsed: ParsedDocument) -> list[tuple[str, ...]]:
    return [section.heading for section in parsed.document.sections]


async def test_markdown_headings_are_sections(parser: PooledDocumentParser) -> None:
    text = (
        "---\ntitle: not a heading\n---\nIntro\n\n# One\n\nText 😀\n\n```\n# no heading\n```\n\n"
        "Under\n-----\n\n> # quoted\n\n"
        "### Deep\n\nEnd\n\n# Two\n\nLast"
    )
    parsed = await parse(parser, text, "a.md")
    assert headings(parsed) == [(), ("One",), ("One", "Under"), ("One", "Under", "Deep"), ("Two",)]
    assert [text[s.start : s.end].split("\n")[0] for s in parsed.document.sections[1:]] == [
        *("# One", "Under", "### Deep", "# Two"),
    ]


async def test_offsets_are_those_of_the_file(parser: PooledDocumentParser) -> None:
    for encoding, mark in (("utf-8", "\ufeff"), ("utf-8", ""), ("utf-16-le", "\ufeff"), ("utf-16-be", "\ufeff")):
        text = mark + "# Title 👩‍👩‍👧\r\n\r\n" + "Wörd e\u0301 😀.\r\n" * 30 + "## Süb\r\n\r\nlone\rreturn\r\n"
        parsed = await parse(parser, text.encode(encoding), "a.md")
        assert parsed.document.encoding == encoding
        assert parsed.document.text == text
        assert parsed.chunks[0].text.startswith("# Title 👩‍👩‍👧\r\n")
        assert parsed.chunks[-1].heading[0] == "Title 👩‍👩‍👧"
        assert headings(parsed)[-1] == ("Title 👩‍👩‍👧", "Süb")


async def test_rst_titles_are_sections(parser: PooledDocumentParser) -> None:
    text = (
        "=====\nTitle\n=====\n\nIntro\n\nPart\n====\n\nText::\n\n   no\n   ==\n\n"
        "Sub\n---\n\nx\n\n----\n\nPart 2\n======\n\ny\n"
    )
    parsed = await parse(parser, text, "a.rst")
    assert headings(parsed) == [("Title",), ("Title", "Part"), ("Title", "Part", "Sub"), ("Title", "Part 2")]


async def test_code_is_split_along_its_structure(parser: PooledDocumentParser) -> None:
    text = "".join(f"def function_{i}(a, b):\n    c = a + b\n\n    return c * {i}\n\n\n" for i in range(20))
    parsed = await parser.parse_document(text.encode(), "a.py", ParsingPolicy(chunk_size=100, chunk_overlap=0))
    assert isinstance(parsed, ParsedDocument)
    assert parsed.document.kind is DocumentKind.CODE
    starts = [text[chunk.start :] for chunk in parsed.chunks]
    assert all(start.startswith("def function_") for start in starts)


async def test_html_is_the_text_that_a_reader_sees(parser: PooledDocumentParser) -> None:
    html = (
        "<!doctype html><head><title>T</title><style>p{}</style></head><body><h1>A <b>title</b></h1><p>One\n two"
        "<script>alert(1)</script> three&amp;four<br>next</p><h2>Sub</h2><ul><li>x</li><li>y</li></ul>"
        "<pre>a\n  b</pre><table><tr><td>1</td><td>2</td></tr></table>"
    )
    parsed = await parse(parser, html, "a.html")
    assert parsed.document.text.strip() == (
        "# A title\n\nOne two three&four\nnext\n\n## Sub\n\n- x\n\n- y\n\na\n  b\n\n1 2"
    )
    assert headings(parsed) == [("A title",), ("A title", "Sub")]
    latin = '<meta charset="iso-8859-1"><p>Zürich</p>'.encode("latin-1")
    assert (await parse(parser, latin, "a.htm")).document.text == "Zürich\n\n"
    assert (await parse(parser, "<p>Zürich 😀", "a.htm")).document.text == "Zürich 😀\n\n"


async def test_chunks_of_a_pdf_name_their_page(parser: PooledDocumentParser) -> None:
    parsed = await parse(parser, make_pdf(["First page", "", "Third " + "word " * 60]), "a.pdf")
    assert [section.page for section in parsed.document.sections] == [1, 3]
    assert parsed.chunks[0].text == "First page"
    assert {chunk.page for chunk in parsed.chunks[1:]} == {3}
    assert len(parsed.chunks) > 3


async def test_docx_has_headings_and_tables(parser: PooledDocumentParser) -> None:
    content = make_docx([(1, "Top"), (0, "Some\ttext"), (2, "Sub"), (0, "More 😀")], [["a", "b"], ["c", "d"]])
    parsed = await parse(parser, content, "a.docx")
    assert parsed.document.text.strip() == "# Top\n\nSome text\n\n## Sub\n\nMore 😀\n\na\n\nb\n\nc\n\nd"
    assert headings(parsed) == [("Top",), ("Top", "Sub")]


async def test_a_rejection_is_a_result(parser: PooledDocumentParser) -> None:
    for content, name, reason in (
        (b"x", "a.exe", RejectionReason.UNSUPPORTED),
        (b"", "a.txt", RejectionReason.EMPTY),
        (b" \r\n\t", "a.txt", RejectionReason.EMPTY),
        (b"\xef\xbb\xbf", "a.md", RejectionReason.EMPTY),
        (b"ok\xff\xfe", "a.txt", RejectionReason.NOT_TEXT),
        (b"a\0b", "a.py", RejectionReason.NOT_TEXT),
        (b"\xff\xfea", "a.txt", RejectionReason.NOT_TEXT),
        (b"<script>x</script>", "a.html", RejectionReason.EMPTY),
        (make_pdf([""]), "a.pdf", RejectionReason.EMPTY),
    ):
        result = await parser.parse_document(content, name, POLICY)
        assert isinstance(result, Rejection), (name, content)
        assert result.reason is reason, (name, content, result)
        assert result.message.endswith((".", ")"))


def test_the_name_decides_the_kind() -> None:
    kinds = {name: find_kind(name) for name in ("a/b.MD", "README", "x.tar.gz", "a.PDF", ".gitignore", "a\nb.py")}
    assert kinds == {
        "a/b.MD": DocumentKind.MARKDOWN,
        "README": DocumentKind.TEXT,
        "x.tar.gz": None,
        "a.PDF": DocumentKind.PDF,
        ".gitignore": DocumentKind.TEXT,
        "a\nb.py": DocumentKind.CODE,
    }


async def test_the_link_sign_behind_a_heading_is_no_part_of_it(parser: PooledDocumentParser) -> None:
    sign = '<a class="headerlink" href="#one" title="Link">¶</a>'
    parsed = await parse(parser, f"<h1>One{sign}</h1><p>Text with <a href='x'>a link</a>.</p>", "a.html")
    assert headings(parsed) == [("One",)]
    assert "¶" not in parsed.document.text
    assert "Text with a link." in parsed.document.text
