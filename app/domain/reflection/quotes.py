"""The quote of a model's finding: the words of its source that state it."""

from typing import Final

from app.domain.languages import count_unspaced
from app.domain.text_rules import normalise_text, one_line

MIN_QUOTE: Final = 8
MIN_UNSPACED: Final = 2
"""The characters of a script without blanks that are enough for a quote."""
MAX_QUOTE: Final = 500
"""The most characters of a quote that are compared."""


def find_quote(quote: str, source: str) -> str:
    """Return the longest beginning of a quote that stands in the source, in any case; empty if too much of it is not.

    A small model copies the words and then goes on by itself, often until its answer is cut off. The words behind the
    beginning do not count, but two thirds of the quote must stand in the source. What is longer than the source is left
    out first: there a model only repeats itself.
    """
    folded = fold_quote(source)
    given = one_line(normalise_text(quote[:MAX_QUOTE])).strip()[: max(len(folded), MIN_QUOTE)]
    least, most = 0, len(given)
    while least < most:
        middle = (least + most + 1) // 2
        if given[:middle].casefold() in folded:
            least = middle
        else:
            most = middle - 1
    found = given[:least].strip()
    return found if 3 * len(found) >= 2 * len(given) else ""


def is_short_quote(quote: str) -> bool:
    """Tell whether a quote is too short to be evidence: two characters are enough in a script without blanks."""
    return len(quote) < MIN_QUOTE and count_unspaced(quote) < MIN_UNSPACED


def fold_quote(text: str) -> str:
    """Return a text as quotes are compared with it: on one line and without upper case."""
    return one_line(normalise_text(text)).casefold()
