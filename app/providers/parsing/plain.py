"""Parsers of text, code, Markdown and reStructuredText: the text is the decoded file itself."""

import re
from itertools import pairwise

from app.domain.sources.rejection import RejectionReason
from app.providers.parsing.draft import Draft, Heading, Rejected, Request, build_sections, check_length, make_title

LINE_END = re.compile("\r\n?|\n")
ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*[ \t]*")


def decode_file(request: Request) -> tuple[str, str]:
    """Return the file's text and its encoding: UTF-8, or UTF-16 if a byte order mark says so.

    Line ends and the byte order mark stay, so that offsets are those of the decoded file. Raise Rejected if the file is
    neither, or has a NUL.
    """
    content = request.content
    encoding = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(content[:2], "utf-8")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise Rejected(RejectionReason.NOT_TEXT, f"byte {error.start} is not valid {encoding}") from None
    if (nul := text.find("\0")) >= 0:
        raise Rejected(RejectionReason.NOT_TEXT, f"character {nul} is NUL")
    check_length(len(text), request.policy.max_characters)
    return text, encoding


def read_plain(request: Request) -> Draft:
    """Parse text or code, which is one section."""
    text, encoding = decode_file(request)
    return Draft(text, build_sections(len(text), ()), encoding)


def read_markdown(request: Request) -> Draft:
    """Parse Markdown; its headings outside lists and quotes begin sections."""
    text, encoding = decode_file(request)
    return Draft(text, build_sections(len(text), find_markdown_headings(text)), encoding)


def find_markdown_headings(text: str) -> list[Heading]:
    """Return the headings of Markdown, without those in front matter."""
    from markdown_it import MarkdownIt

    body = _skip_front_matter(text)
    starts = [body, *(match.end() for match in LINE_END.finditer(text, body))]
    tokens = MarkdownIt("commonmark").disable("inline").parse(text[body:])
    return [
        Heading(starts[token.map[0]], int(token.tag[1:]), make_title(title.content))
        for token, title in pairwise(tokens)
        if token.type == "heading_open" and token.level == 0 and token.map
    ]


def _skip_front_matter(text: str) -> int:
    first = 1 if text.startswith("\ufeff") else 0
    if not re.compile("---[ \t]*\r?\n").match(text, first):
        return first
    end = re.compile("^(?:---|\\.\\.\\.)[ \t]*\r?$\n?", re.MULTILINE).search(text, first + 4)
    return end.end() if end else first


def read_rst(request: Request) -> Draft:
    """Parse reStructuredText; its titles with an underline begin sections."""
    text, encoding = decode_file(request)
    return Draft(text, build_sections(len(text), find_rst_headings(text)), encoding)


def find_rst_headings(text: str) -> list[Heading]:
    """Return the titles of reStructuredText: a line that is underlined at least to its length.

    Their levels follow the order in which underlines, with or without overlines, first occur.
    """
    starts = [1 if text.startswith("\ufeff") else 0, *(match.end() for match in LINE_END.finditer(text))]
    lines = [text[start:end].rstrip() for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    levels: dict[str, int] = {}
    headings: list[Heading] = []
    for row in range(1, len(lines)):
        title = lines[row - 1]
        line = lines[row]
        over = row > 1 and lines[row - 2] == line
        blank_before = row == 1 or not lines[row - 2]
        if not _is_title(title, line) or not (over or (blank_before and not title[0].isspace())):
            continue
        level = levels.setdefault(line[0] * 2 if over else line[0], len(levels) + 1)
        headings.append(Heading(starts[row - 2 if over else row - 1], level, make_title(title)))
    return headings


def _is_title(title: str, line: str) -> bool:
    if len(line) < 2 or not title or len(title.strip()) > len(line) or not ADORNMENT.fullmatch(line):
        return False
    return not ADORNMENT.fullmatch(title)
