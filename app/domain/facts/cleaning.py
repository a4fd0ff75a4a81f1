"""Cleaning of a message: it removes what the writer did not state, before the message is read for facts."""

import re
from typing import Final

_ASCII: Final = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "„": '"', "\u00a0": " ", "\u200b": None})
_LINE_BREAK: Final = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_FENCE: Final = re.compile(r" {0,3}(?:```|~~~)")
_HEADING: Final = re.compile(r"^ {0,3}#{1,6}(?=[ \t])")
_MODEL: Final = re.compile(r"[\s*_]{0,8}model[*_]{0,4} ?:", re.IGNORECASE)
_CITATION: Final = re.compile(r" ?\[M\d{1,6}\]")
_MONTH: Final = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_DATE: Final = (
    rf"(?:\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{2,4}}"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?\.? (?:of )?{_MONTH}(?:,? \d{{4}})?|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?)"
)
_TIME: Final = r"\d{1,2}:\d{2}(?::\d{2})?(?:\.\d{1,6})?(?: ?[ap]\.?m\.?)?(?: ?(?:z|utc|gmt|[+-]\d{2}:?\d{2}))?"
_DATE_LINE: Final = re.compile(
    rf"[\[(*_]{{0,3}}(?:date ?: ?)?(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day,? )?{_DATE}(?:[T,]? ?(?:at )?{_TIME})?"
    r"[\])*_.:]{0,4}",
    re.IGNORECASE,
)


def clean_message(text: str) -> str:
    """Return `text` with ASCII quotes and without what its writer did not state.

    Remove code blocks, quoted lines, rows of tables, `Model:` lines, lines with only a date, heading marks and
    citation marks (`[M1]`). A rank such as `#1 XMR` is no heading.
    """
    kept: list[str] = []
    fenced = False
    for line in _LINE_BREAK.sub("\n", text.translate(_ASCII)).split("\n"):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and not _is_foreign(line.strip()):
            kept.append(_CITATION.sub("", _HEADING.sub("", line)).strip())
    return "\n".join(kept).strip("\n")


def _is_foreign(line: str) -> bool:
    """Tell whether a line is quoted, a row of a table, a model's name or only a date."""
    return line.startswith((">", "|")) or bool(_MODEL.match(line) or _DATE_LINE.fullmatch(line))
