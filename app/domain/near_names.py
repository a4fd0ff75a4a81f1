"""The forms of a word that one slip of a finger makes."""


def slip_forms(word: str) -> frozenset[str]:
    """Return a word and the forms that lack one of its letters. Two words that share a form differ by one slip.

    A slip is a letter too many, too few, wrong or in its neighbour's place. Quadratic: for a word, not for a text.
    """
    return frozenset({word, *(word[:at] + word[at + 1 :] for at in range(len(word)))})
