"""A parser of PDF."""

from contextlib import AbstractContextManager
from io import BytesIO

import pypdf
from pypdf import apply_configuration
from pypdf.errors import FileNotDecryptedError, LimitReachedError

from app.domain.sources.document import Section
from app.domain.sources.rejection import RejectionReason
from app.domain.sources.source_policy import ParsingPolicy
from app.providers.parsing.draft import Draft, Rejected, Request, check_length, clean_text


def read_pdf(request: Request) -> Draft:
    """Parse a PDF; each page with text is a section."""
    try:
        with _limit_streams(request.policy):
            reader = pypdf.PdfReader(BytesIO(request.content))
            if reader.is_encrypted and not reader.decrypt(""):
                raise Rejected(RejectionReason.ENCRYPTED)
            return _read_pages(reader, request.policy)
    except LimitReachedError as error:
        raise Rejected(RejectionReason.EXPANDS_TOO_MUCH, str(error)[:200]) from None
    except FileNotDecryptedError:
        raise Rejected(RejectionReason.ENCRYPTED) from None


def _limit_streams(policy: ParsingPolicy) -> AbstractContextManager[object]:
    most = policy.max_unpacked_bytes
    return apply_configuration(
        zlib_maximum_output_length=most,
        lzw_maximum_output_length=most,
        run_length_maximum_output_length=most,
        brotli_maximum_output_length=most,
        array_based_stream_maximum_output_length=most,
        maximum_declared_stream_length=policy.max_bytes,
        stream_decoding_work_maximum_length=4 * most,
        page_tree_maximum_page_entries=1_000_000,
    )


def _read_pages(reader: pypdf.PdfReader, policy: ParsingPolicy) -> Draft:
    if (count := len(reader.pages)) > policy.max_pages:
        raise Rejected(RejectionReason.TOO_MANY_PAGES, f"{count} pages; at most {policy.max_pages}")
    parts: list[str] = []
    sections: list[Section] = []
    start = 0
    for number, page in enumerate(reader.pages, start=1):
        text = clean_text(page.extract_text()).strip()
        if text:
            parts.append(f"{text}\n\n")
            sections.append(Section(start, start + len(parts[-1]), page=number))
            start += len(parts[-1])
            check_length(start, policy.max_characters)
    if not parts:
        raise Rejected(RejectionReason.EMPTY, f"none of {count} pages has text; scanned pages need OCR first")
    return Draft("".join(parts), sections)
