"""A parser of DOCX."""

import re
import zipfile
from io import BytesIO
from typing import Final, Protocol

import docx
from lxml import etree

from app.domain.sources.rejection import RejectionReason
from app.providers.parsing.draft import Draft, Rejected, Request, TextBuilder

OLE: Final = b"\xd0\xcf\x11\xe0"
"""The first bytes of a document with a password: it is not a zip file but an OLE container."""

MAX_PARTS: Final = 10_000
WORD: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
FALLBACK: Final = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
HEADING: Final = re.compile(r"heading ([1-9])", re.IGNORECASE)


class Element(Protocol):
    """An element of XML."""

    tag: str
    text: str | None


def read_docx(request: Request) -> Draft:
    """Parse a DOCX file; its headings begin sections. Text in headers, footers and notes is left out."""
    if request.content.startswith(OLE):
        raise Rejected(RejectionReason.ENCRYPTED)
    check_parts(request.content, request.policy.max_unpacked_bytes)
    document = docx.Document(BytesIO(request.content))
    levels = {style.style_id: _find_level(style.name or "") for style in document.styles}
    builder = TextBuilder(request.policy)
    walk = etree.iterwalk(document.element.body, events=("start", "end"))
    for event, element in walk:
        if event == "start" and element.tag == FALLBACK:
            walk.skip_subtree()
        elif event == "start":
            _add_element(builder, element)
        elif element.tag == f"{WORD}p":
            builder.end_block(levels.get(element.style, 0))
    return builder.finish_draft()


def check_parts(content: bytes, limit: int) -> None:
    """Raise Rejected if the parts of a zip file are too many or too large.

    `zipfile` never unpacks more of a part than the part's header says, so the headers are a true bound.
    """
    with zipfile.ZipFile(BytesIO(content)) as archive:
        parts = archive.infolist()
    if len(parts) > MAX_PARTS:
        raise Rejected(RejectionReason.EXPANDS_TOO_MUCH, f"{len(parts)} parts; at most {MAX_PARTS}")
    if (size := sum(part.file_size for part in parts)) > limit:
        raise Rejected(RejectionReason.EXPANDS_TOO_MUCH, f"{size} bytes unpacked; at most {limit}")


def _find_level(style: str) -> int:
    found = HEADING.fullmatch(style)
    return int(found[1]) if found else int(style == "Title")


def _add_element(builder: TextBuilder, element: Element) -> None:
    if element.tag == f"{WORD}t":
        builder.add_text(element.text or "")
    elif element.tag == f"{WORD}tab":
        builder.add_text("\t")
    elif element.tag in (f"{WORD}br", f"{WORD}cr"):
        builder.add_text("\n")
