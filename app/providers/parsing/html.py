"""A parser of HTML with libxml2's, which reports tags one by one and builds no tree."""

import codecs
import re
from collections.abc import Mapping
from typing import Final

from lxml import etree

from app.providers.parsing.draft import Draft, Request, TextBuilder

HIDDEN: Final = frozenset(
    {"head", "script", "style", "template", "noscript", "svg", "math", "iframe", "object", "select"}
)
INLINE: Final = frozenset(
    (
        "a",
        "abbr",
        "acronym",
        "b",
        "bdi",
        "bdo",
        "big",
        "cite",
        "code",
        "data",
        "del",
        "dfn",
        "em",
        "font",
        "i",
        "img",
        "ins",
        "kbd",
        "label",
        "mark",
        "q",
        "s",
        "samp",
        "small",
        "span",
        "strike",
        "strong",
        "sub",
        "sup",
        "time",
        "tt",
        "u",
        "var",
        "wbr",
    )
)
HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
CHARSET: Final = re.compile(rb"charset\s{0,9}=\s{0,9}[\"']?([\w:-]{1,40})", re.IGNORECASE)
MARKS: Final = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def read_html(request: Request) -> Draft:
    """Parse HTML: the text that a reader sees, with a blank line between blocks."""
    target = _Target(TextBuilder(request.policy))
    parser = etree.HTMLParser(target=target, encoding="utf-8", huge_tree=True)
    content = decode_html(request.content).encode("utf-8", "replace")
    for at in range(0, len(content), 1 << 16):
        parser.feed(content[at : at + (1 << 16)])
    try:
        parser.close()
    except etree.XMLSyntaxError:
        if target.has_content:
            raise
    return target.builder.finish_draft()


def decode_html(content: bytes) -> str:
    """Decode HTML by its byte order mark, else by the charset that it names, else as UTF-8 or Windows-1252."""
    encoding = next((name for mark, name in MARKS.items() if content.startswith(mark)), None)
    named = CHARSET.search(content[:2048])
    for name in (encoding, named and named[1].decode("ascii"), "utf-8"):
        try:
            return content.decode(name) if name else content.decode("utf-8")
        except (LookupError, UnicodeError):
            continue
    return content.decode("cp1252", "replace")


def _is_permalink(tag: str, attrib: Mapping[str, str]) -> bool:
    """Tell whether it is the link sign behind a heading, which readers see when they point at it."""
    return tag == "a" and "headerlink" in attrib.get("class", "").split()


class _Target:
    """A receiver of tags and texts."""

    def __init__(self, builder: TextBuilder) -> None:
        self.builder = builder
        self.has_content = False
        self._hidden: list[str] = []
        self._verbatim = 0
        self._level = 0

    def start(self, tag: str, attrib: Mapping[str, str]) -> None:
        self.has_content = True
        if self._hidden or tag in HIDDEN or _is_permalink(tag, attrib):
            self._hidden += [tag] if tag in HIDDEN or not self._hidden else []
        elif tag == "br":
            self.builder.add_text("\n")
        elif tag in ("td", "th"):
            self.builder.add_text(" ")
        elif tag not in INLINE:
            self._end_block()
            self._level = HEADINGS.get(tag, 0)
            self._verbatim += tag == "pre"
            if tag == "li":
                self.builder.add_text("- ")

    def end(self, tag: str) -> None:
        if self._hidden:
            if tag == self._hidden[-1]:
                self._hidden.pop()
        elif tag not in INLINE and tag not in ("td", "th", "br"):
            self._end_block()
            self._level = 0
            self._verbatim -= tag == "pre" and self._verbatim > 0

    def data(self, text: str) -> None:
        if not self._hidden:
            self.builder.add_text(text if self._verbatim else " ".join(f"|{text}|".split())[1:-1])

    def comment(self, text: str) -> None:
        pass

    def close(self) -> None:
        self._end_block()

    def _end_block(self) -> None:
        self.builder.end_block(self._level, verbatim=self._verbatim > 0)
