"""One spelling for what English writes in several ways: clock times, dates, British words, hyphens.

Only the comparison of two texts reads the result; no text is stored in it. What could mean two things stays as it is:
"8:00" (morning or evening?) and "03/04" (3 April or 4 March?).
"""

import re
from collections import Counter
from functools import lru_cache
from typing import Final

from app.domain import english
from app.domain.english_words import MONTHS
from app.domain.memory import word_lists as words
from app.domain.text_rules import normalise_text

_FULL_FORMS: Final = english.pairs("memory", "word_lists")
_LISTED: Final = english.words("memory", "word_lists")
_EN: Final = english.patterns("memory", "spellings")

_MONTH: Final = rf"(?P<month>{'|'.join((*MONTHS, *_FULL_FORMS.months, 'mar'))})\b"
_DAY: Final = r"(?P<day>3[01]|[12]\d|0?[1-9])(?:st|nd|rd|th)?"
_FREE: Final = r"(?<![\w.,:/+-])"
"""No match starts inside a number or a range."""
_MONTH_FIRST: Final = re.compile(
    rf"\b{_MONTH}\.? {_DAY}(?!\w|[-–/:.]\d)(?:,? (?P<year>(?:19|20)\d\d)(?!\w|[-–/:.]\d))?", re.IGNORECASE
)
_DAY_FIRST: Final = re.compile(rf"{_FREE}{_DAY}(?: of)? {_MONTH}", re.IGNORECASE)
_DOUBLED: Final = re.compile(rf"(?P<stem>{'|'.join(sorted(_LISTED.doubled_l))})l(?P<ending>ed|ing|er|ers)")


@lru_cache(maxsize=4096)  # a write reads its neighbours, and the same neighbours are read again
def canonical_spelling(text: str) -> str:
    """Return `text` with 24-hour times ("15:00h"), dates as "12 march 2026" and American spelling. Linear time."""
    clean = normalise_text(text)
    clean = clean.lower() if clean.isupper() and " " in clean else clean
    if _EN.digit.search(clean):
        clean = _EN.full_day.sub(r"\g<hour>:\g<minute>h", _EN.twelve_hours.sub(_clock_time, _EN.noon.sub("", clean)))
        for pattern in (_EN.iso_date, _MONTH_FIRST, _DAY_FIRST, _EN.numeric_date):
            clean = pattern.sub(_plain_date, clean)
    return _EN.word.sub(_american_words, clean)


def has_ambiguous_date(text: str) -> bool:
    """Tell whether a text has a numeric date, such as "03/04", that does not tell its day from its month."""
    dates = ((int(found["first"]), int(found["second"] or found["other"])) for found in _EN.numeric_date.finditer(text))
    return any(min(date) >= 1 and max(date) <= 12 for date in dates)


def hyphens_clash(a: str, b: str) -> bool:
    """Tell whether the hyphens of two canonical texts could change the meaning of the same words.

    "part-time" is "part time". But "twenty two-hour" is not "twenty-two hour", a man eating shark is no man-eating
    shark, and Anne-Marie is one person.
    """
    left, right = (Counter(_EN.compound.findall(text.casefold())) for text in (a, b))
    only_left = left - right
    only_right = right - left
    if only_left and only_right:
        return True
    text, extra = (a, only_left) if only_left else (b, only_right)
    return any(found.casefold() in extra and _is_bound(found, text) for found in _EN.compound.findall(text))


def _is_bound(compound: str, text: str) -> bool:
    """Tell whether the hyphen of `compound` carries meaning in `text`."""
    parts = compound.split("-")
    start = 1 if text.startswith(compound) else 0  # a capital at the start of the text makes no name
    if any(part != part.lower() for part in parts[start:]) or any(part.endswith("ing") for part in parts):
        return True
    return any(map(_is_number, parts)) and sum(map(_is_number, re.findall(r"\w+", text))) > 1


def _is_number(word: str) -> bool:
    return word[0].isdigit() or word.casefold() in words.NUMBERS


def _clock_time(match: re.Match[str]) -> str:
    """Return "15:30h"; 12 pm is "noon" and 12 am "midnight"."""
    hour = int(match["hour"]) % 12
    minute = match["minute"] or "00"
    evening = match["half"] in "pP"
    if hour == 0 and minute == "00":
        return "noon" if evening else "midnight"
    return f"{hour + 12 * evening:02}:{minute}h"


def _plain_date(match: re.Match[str]) -> str:
    """Return "12 march 2026", or the match itself if its day and month cannot be told apart."""
    found = match.groupdict()
    if "first" in found:
        first = int(found["first"])
        second = int(found["second"] or found["other"])
        day = max(first, second)
        month = min(first, second)
        year = found["full_year"] or found["year"] or ""
        if not (12 < day <= 31 and month >= 1 and len(year) == 4):
            return match[0]
    else:
        name = found["month"].lower()
        month = int(name) if name.isdigit() else _month_number(name)
        day = int(found["day"])
        year = found.get("year") or ""
    return f"{day} {MONTHS[month - 1]} {year}".rstrip()


def _month_number(name: str) -> int:
    full = "march" if name == "mar" else _FULL_FORMS.months.get(name, name)
    return MONTHS.index(full) + 1


def _american_words(match: re.Match[str]) -> str:
    return _american_spelling(match[0], match.start() > 0)


@lru_cache(maxsize=8192)
def _american_spelling(word: str, inside: bool) -> str:
    """Return the word in American spelling, in lower case. A name keeps its spelling: Mr Grey is not Mr Gray."""
    low = word.lower()
    if low in _FULL_FORMS.joined:
        return _FULL_FORMS.joined[low]
    if word != low and (inside or low in _LISTED.spelt_as_names):
        return word
    spelt = "-".join(map(_american_word, low.split("-")))
    return word if spelt == low else spelt.capitalize() if word[0].isupper() else spelt


def _american_word(low: str) -> str:
    if low in _FULL_FORMS.american:
        return _FULL_FORMS.american[low]
    for british, american in _FULL_FORMS.american_stems.items():
        if british in low:
            return low.replace(british, american)
    if low in _LISTED.keeps_ise:
        return low
    if found := _DOUBLED.fullmatch(low):
        return found["stem"] + found["ending"]
    if found := _EN.ending_in_ise.fullmatch(low):
        return f"{found['stem']}iz{found['ending']}"
    return low
