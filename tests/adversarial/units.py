"""Hostile texts: units that are repeated, alone, in pairs and in triples."""

import random
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

COMBINING: Final = ("\u0301\u0327", "\u0f73")
UNITS: Final = (
    *("\u0301\u200b", "\u0916\u200d\u0301", "😀\u200d", "\U000e0020"),
    *(".", ".)", "a.", "。」", "1.", "1,", "1) ", "\n1. a", "3 days ago "),
    *(" ", "\n", " \n", "a\n\n", '"', "'", " 'a", "x n't ", "[", "(", "{", '{"', '{"a":', '{"a":[1,', "```"),
    *("-", " -", "a-", "# ", "\\", "http://a.b ", "a: ", "a", "A", "Word ", "ok ", "still ", "I like to ", "my dog "),
    *("never ", " and I ", ", so ", "it is ", "the launch ", " on 3 May", " by the way "),
    *("no new ", "not yet ", "Goals: ", "Goals: a; ", "[M1] ", "[m", "[tasks", "⟦M1", "+created: ", "(imp="),
    "Long-term memory (most relevant first)\n ",
    *("current ", "Memory updates since rev ", "2026-01-01 00:00:00 ADD by ", "[TURN MEMORIES "),
    *("my ", "my favorite ", "my favorite color is red and ", "my favorite colors are ", "Red is my favorite color, "),
    *(
        "swap #1 and ",
        "- red\n",
        "1) red ",
        "first: ",
        "My favorite colors:\n",
        "remove #2. ",
        " is ",
        ", and ",
        " lol",
    ),
)
"""The repeated units. Combining marks are repeated more often, because sorting them is fast."""
FURTHER: Final = (
    *(
        "ß1,",
        "İ",
        "ﬁ",
        "½ ",
        "…",
        "—",
        " — ",
        "“",
        "” ",
        "’s ",
        "«",
        "* ",
        "**",
        "_",
        "|",
        "%",
        "$5 ",
        "@",
        "=",
        "+ ",
        ">",
    ),
    *("\t", "\r\n", "\u2028", "\x00", "; ", ";", ": ", ", ", "? ", "! ", ". ", "a. ", "A. ", "Mr. ", "e.g. ", "10:30 "),
    *(
        "1/2 ",
        "3 pm ",
        "May 3 ",
        "2026-05-01 ",
        "1 kg ",
        "a@b.cd ",
        "the ",
        "the the ",
        ".the ",
        "of ",
        "a an ",
        "and ",
        "or ",
    ),
    *(
        "and ",
        "or ",
        "but ",
        "not ",
        "no ",
        "who ",
        "that ",
        "if ",
        "because ",
        "says ",
        "I ",
        "we ",
        "you ",
        "user ",
        "the user ",
    ),
    *("from A to ", "in A ", "Ann A ", "Ann's ", "called ", "call me A", "name is ", "years ", "remember ", "please "),
    *("don't ", "always ", "actually ", "sorry ", "instead ", "replace a with ", "add a to ", "first ", "#1 ", "1st: "),
)
"""More words and signs. They are repeated in pairs and triples only."""


class Hostile(NamedTuple):
    """A text that repeats units: in turn, or each in a block of its own, or in a random order."""

    units: Sequence[str]
    form: str = "turns"

    def build(self, size: int) -> str:
        """Return about so many characters, with an end that the units do not match."""
        if self.form == "turns":
            together = "".join(self.units)
            return together * (size // len(together)) + "x"
        if self.form == "blocks":
            share = size // len(self.units)
            return "".join(unit * (share // len(unit)) for unit in self.units) + "x"
        mixed = random.Random(size)
        length = sum(map(len, self.units)) / len(self.units)
        return "".join(mixed.choices(self.units, k=int(size / length))) + "x"


def single_units() -> Iterator[Hostile]:
    """Yield each unit alone."""
    yield from (Hostile((unit,)) for unit in (*COMBINING, *UNITS))


def combined_units(seed: str, rounds: int) -> Iterator[Hostile]:
    """Yield pairs and triples, drawn by a seed. In each round each unit stands in one pair or triple."""
    draw = random.Random(seed)
    for _ in range(rounds):
        units = draw.sample([*UNITS, *FURTHER], len(UNITS) + len(FURTHER))
        while units:
            count = draw.choice((2, 3))
            yield Hostile(tuple(units[:count]), draw.choices(("turns", "blocks", "mixed"), (3, 2, 1))[0])
            del units[:count]
