"""Reasons why a document is rejected."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class RejectionReason(StrEnum):
    """The stable code of a reason."""

    UNSUPPORTED = "unsupported"
    TOO_LARGE = "too_large"
    EMPTY = "empty"
    NOT_TEXT = "not_text"
    ENCRYPTED = "encrypted"
    BROKEN = "broken"
    TOO_MANY_PAGES = "too_many_pages"
    TOO_MUCH_TEXT = "too_much_text"
    TOO_MANY_CHUNKS = "too_many_chunks"
    EXPANDS_TOO_MUCH = "expands_too_much"
    TOO_SLOW = "too_slow"
    TOO_MUCH_MEMORY = "too_much_memory"
    CRASHED = "crashed"
    NOT_A_FILE = "not_a_file"
    UNREADABLE = "unreadable"
    CHANGED_MEANWHILE = "changed_meanwhile"
    UNUSABLE_NAME = "unusable_name"
    QUOTA = "quota"
    ERASED = "erased"


SENTENCES: Final = {
    RejectionReason.UNSUPPORTED: "No parser reads files with this extension.",
    RejectionReason.TOO_LARGE: "The file has too many bytes.",
    RejectionReason.EMPTY: "The document has no text.",
    RejectionReason.NOT_TEXT: "The file is not text in UTF-8, or in UTF-16 with a byte order mark.",
    RejectionReason.ENCRYPTED: "The document needs a password.",
    RejectionReason.BROKEN: "The document is damaged, or is not of the kind that its name says.",
    RejectionReason.TOO_MANY_PAGES: "The document has too many pages.",
    RejectionReason.TOO_MUCH_TEXT: "The document has too much text.",
    RejectionReason.TOO_MANY_CHUNKS: "The document has too many chunks.",
    RejectionReason.EXPANDS_TOO_MUCH: "The document expands to too many bytes.",
    RejectionReason.TOO_SLOW: "Parsing took too long.",
    RejectionReason.TOO_MUCH_MEMORY: "Parsing needed too much memory.",
    RejectionReason.CRASHED: "The parser crashed.",
    RejectionReason.NOT_A_FILE: "The path is not a regular file.",
    RejectionReason.UNREADABLE: "The file is missing or may not be read.",
    RejectionReason.CHANGED_MEANWHILE: "The file changed while it was read; the next index job reads it again.",
    RejectionReason.UNUSABLE_NAME: "The name or path cannot be used; rename the file or a folder above it.",
    RejectionReason.QUOTA: "The tenant's quota of documents has no room for the file.",
    RejectionReason.ERASED: "The document has text that was erased at a person's request.",
}


@dataclass(frozen=True, slots=True)
class Rejection:
    """The reason why a document is rejected. `detail` adds figures or the parser's own words; it may be empty."""

    reason: RejectionReason
    detail: str = ""

    @property
    def message(self) -> str:
        """A plain sentence, and the detail if there is one."""
        return f"{SENTENCES[self.reason]} ({self.detail})" if self.detail else SENTENCES[self.reason]
