"""The parser of each kind of document. A parser's library loads with the first document of its kind."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final, TypeAlias

from app.domain.sources.document import DocumentKind
from app.providers.parsing.draft import Draft, Request

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
