"""Names that have a comma, an "and" or a quotation around them: no separator stands inside."""

from typing import Final

from app.domain import english

_EN: Final = english.patterns("facts", "names")

_KEPT_BLANK: Final = "\ue000"
"""The blank after a comma or an "and" inside a name, while values are separated."""
_MAX_TEXT: Final = 2000
"""The characters in which names are looked for. More than the values of a statement need."""
_SIGNS: Final = (",", ";", "&", '"', "+", " and ", " n ", " AND ", " And ", "'n'")
"""The separators of values, without which there is nothing to hide."""


def hide_separators(text: str) -> str:
    """Return a text in which no separator of values stands inside a known name or a quotation. Linear."""
    if not any(sign in text for sign in _SIGNS):
        return text
    head = text[:_MAX_TEXT]
    tail = text[_MAX_TEXT:]
    for pattern in (_EN.name, _EN.place, _EN.quoted):
        head = pattern.sub(lambda match: _EN.inside.sub(_KEPT_BLANK, match[0]), head)
    return head + tail


def show_separators(text: str) -> str:
    """Return a text as it was before `hide_separators`."""
    return text.replace(_KEPT_BLANK, " ")
