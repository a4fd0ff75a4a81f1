"""The value or the values that follow a statement's verb, and where they end."""

import re
from typing import Final

from app.domain import english
from app.domain.facts.spelling import QUESTION_WORDS

_EN: Final = english.patterns("facts", "values")
_NAMES: Final = english.patterns("facts", "names")
_WORDS: Final = english.words("facts", "values")

MAX_VALUE: Final = 200
_MAX_WORDS: Final = 12
_EDGES: Final = " \t.,;:!?…\"'`*_~"
_KEPT_BLANK: Final = "\ue000"
"""The blank after a comma or an "and" inside a name, while values are separated."""
_MAX_NAMED: Final = 2000
"""The characters in which names are looked for. More than the values of a statement need."""
_SIGNS: Final = (",", ";", "&", '"', "+", " and ", " n ", " AND ", " And ", "'n'")
"""The separators of values, without which there is nothing to hide."""


def hide_separators(text: str) -> str:
    """Return a text in which no separator of values stands inside a known name or a quotation. Linear."""
    if not any(sign in text for sign in _SIGNS):
        return text
    head = text[:_MAX_NAMED]
    tail = text[_MAX_NAMED:]
    for pattern in (_NAMES.name, _NAMES.place, _NAMES.quoted):
        head = pattern.sub(lambda match: _NAMES.inside.sub(_KEPT_BLANK, match[0]), head)
    return head + tail


def show_separators(text: str) -> str:
    """Return a text as it was before `hide_separators`."""
    return text.replace(_KEPT_BLANK, " ")


def cut_values(text: str) -> tuple[str, str]:
    """Return the part of `text` that names values, and the rest, which begins at the next clause."""
    text = hide_separators(text)
    view = text.lower() if text.isupper() and text.isascii() else text
    lead = _skip_lead(view)
    first = len(view) - len(view[lead:].lstrip(_EDGES))
    for match in _EN.break_word.finditer(view, lead):
        if first < match.start() and _ends_values(match, view):
            end = match.start()
            dangling = _EN.dangling.search(text, max(lead, end - 8), end)
            return show_separators(text[lead : dangling.start() if dangling else end].strip()), show_separators(
                text[end:]
            )
    return show_separators(text[lead:].strip()), ""


def cut_value(text: str) -> tuple[str, str]:
    """Return the part of `text` that names one value, and the rest. "A, B and C" is one value."""
    whole, rest = cut_values(text)
    hidden = hide_separators(whole)
    comma = _EN.comma.search(hidden)
    if not comma or (comma[0] == ", " and _ends_with_and(hidden)):
        return whole, rest
    return whole[: comma.start()], whole[comma.start() :] + rest


def _ends_with_and(text: str) -> bool:
    last = text[max(text.rfind(","), text.rfind(";")) + 1 :]
    return " and " in last or " & " in last


def _skip_lead(text: str) -> int:
    """Return where the values begin: after signs and words such as "definitely"."""
    at = 0
    while match := _EN.lead.match(text, at):
        at = match.end()
    return at


def _ends_values(match: re.Match[str], text: str) -> bool:
    """Tell whether a new clause or a remark follows this break."""
    if match["hard"]:
        return True
    following = _EN.break_word.search(text, match.end())
    piece = text[match.end() : following.start() if following else len(text)]
    words = _EN.word.findall(piece)
    if not words:
        return not piece.strip(_EDGES) and not following
    subject = words[0] in _WORDS.subjects or (words[0] == "I" and len(words) > 1 and words[1].islower())
    if match["so"]:
        return subject or match["so"].startswith(",") or match["so"].strip() in {"so", "which"}
    remark = match["soft"] in {",", ";"} and words[0] in _WORDS.remarks
    return subject or remark or not (_WORDS.finite | _WORDS.favorites).isdisjoint(words)


def split_values(text: str) -> list[str]:
    """Return the values of an enumeration: commas and the last "and" separate.

    After a comma before the last "and", an "and" inside a value stays. A part that names nothing empties the list.
    """
    text = hide_separators(_trim_trail(text))
    if text.isupper():
        text = text.replace(" AND ", " and ")
    text = text.replace(" as well as ", " and ")
    if "," not in text and ";" not in text:
        text = _EN.chain.sub(", ", text.replace("/", ", ") if _EN.slashed.fullmatch(text) else text)
    if ", " not in text and "; " not in text:
        text = _EN.tight.sub(r"\g<0> ", text)
    separator = _EN.semicolon if "; " in text else _EN.comma
    parts = [part for part in separator.split(text) if part.strip()]
    last = parts[-1].strip() if parts else ""
    if opened := re.match(r"(?:and|&|plus)(?: also| then| finally| lastly)? ", last):
        parts[-1] = last[opened.end() :]
        if "also" in opened[0] and len(parts) > 1:  # "red and blue, and also green"
            parts[-2:-1] = _split_last(parts[-2].strip(), alone=len(parts) == 2)
    elif parts:
        parts[-1:] = _split_last(last, alone=len(parts) == 1)
    named = [show_separators(_EN.leading_link.sub("", part.strip())) for part in parts]
    values = [read_value(value) for value in named]
    return [value for value in values if value] if all(values) else []


def _split_last(part: str, *, alone: bool) -> list[str]:
    """Split the last part of an enumeration at its last "and", which is not inside a pair that names one thing.

    A part that is `alone` and has single words between several "and" is split at each.
    """
    fixed = {match.start("and") for match in _EN.fixed_pairs.finditer(part)}
    ands = list(re.finditer(r"(?:(?<= )(?:and|&)(?: also)?|(?<=\w)\+|(?<= )\+)(?= )", part))
    free = [match for match in ands if match.start() not in fixed]
    if not free:
        return [part]
    if alone and len(free) == len(ands) > 1:
        pieces = re.split(r" (?:and|&) ", part)
        if all(" " not in piece for piece in pieces):
            return pieces
    return [part[: free[-1].start()], part[free[-1].end() :]]


def read_value(text: str) -> str | None:
    """Return a value as its user spelled it, without quotes, Markdown marks and final punctuation.

    Return None if the text names nothing.
    """
    if len(text) > 4 * MAX_VALUE or _EN.template.search(text):
        return None
    value = _EN.aside.sub("", _trim_trail(text).strip(_EDGES).lstrip("-–—• "))
    if _EN.initials.search(f"{value}.") and f"{value}." in text:
        value += "."
    value = value.rstrip(" (")
    if value.endswith(")") and value.count(")") > value.count("("):
        value = value[:-1].rstrip()
    if value.count("(") > value.count(")"):
        value += ")" if text.rstrip(_EDGES.replace("'", "")).endswith(")") else ""
    if value.count('"') % 2:  # '"Hey Jude" (The Beatles)' lost its first quote
        value = value.replace('"', "")
    return value if _names_thing(value) and value.lower() not in QUESTION_WORDS else None


def _trim_trail(text: str) -> str:
    """Remove remarks such as "too" and ":)" from the end."""
    end = len(text)
    while (match := _EN.trail.search(text, max(0, end - 40), end)) and match.start() > 0:
        end = match.start()
    return text[:end].strip()


def _names_thing(value: str) -> bool:
    """Tell whether a value names something: no clause, no placeholder and nothing too long."""
    words = value.split(maxsplit=_MAX_WORDS)
    if not words or len(value) > MAX_VALUE or len(words) > _MAX_WORDS:
        return False
    first = words[0].strip(_EDGES)
    if first in _WORDS.no_value_start or first == "NOT" or _EN.no_value.match(value):
        return False
    if value.casefold() in _WORDS.placeholders:
        return False
    if first == "I" and (len(words) == 1 or words[1].islower()):
        return False
    if not (_WORDS.finite | _WORDS.favorites).isdisjoint(words) or "or" in words:
        return False
    return any(char.isalnum() or ord(char) > 0x2190 for char in value)
