"""Citations: numbered marks, such as `[M1]`, before the texts that a search answers.

A model repeats the mark of what it used. A stored text may contain a mark too; its brackets become round, so that it
is never taken for a mark of this answer.
"""

import re
from typing import Final

from app.domain.text_rules import one_line

_STORED_MARK: Final = re.compile(r"[\[［【](\s?[MmＭｍΜМм]\s?\d[^\[\]［］【】]{0,60})([\]］】]?)")
"""An opening bracket, an M of any script and a digit, also with more words, such as `[M1, M2]`. The end is optional."""


def citation_mark(number: int) -> str:
    """Return the mark of the `number`-th source, from 1."""
    return f"M{number}"


def citation_line(number: int, text: str) -> str:
    """Return `[M<number>] <text>` on one line. Marks inside `text` get round brackets: `[M7]` becomes `(M7)`."""
    return f"[{citation_mark(number)}] {_STORED_MARK.sub(_round_brackets, one_line(text))}"


def _round_brackets(mark: re.Match[str]) -> str:
    return f"({mark[1]}{')' if mark[2] else ''}"
