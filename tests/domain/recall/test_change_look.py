"""The quick look for words of change before a statement is parsed: it never misses what the parser finds."""

import json
from itertools import permutations
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from app.domain.recall import change_words
from app.domain.recall.single_values import may_differ_in_value
from app.domain.recall.statements import CHANGES, first_keys, may_tell_change, parse_statement
from app.domain.recall.supersession import replaces_value

ROOT = Path(__file__).parents[3]
PAIRS = [
    (row["older"], row["newer"])
    for row in map(json.loads, (ROOT / "bench/stale_pairs.jsonl").read_text(encoding="utf-8").splitlines())
]
CUES = sorted(CHANGES | {word for pair in change_words.CUE_PAIRS for word in pair} | {"new", "from", "on", "since"})
OTHERS = [
    "Nora",
    "the",
    "a",
    "do",
    "not",
    "lives",
    "Kiel",
    "it's",
    ",",
    ".",
    "-",
    "and",
    "user",
    "May",
    "3",
    "news:",
    "ｎｏｗ",
]


@given(st.lists(st.sampled_from([*CUES, *(f"{cue}s" for cue in CUES), *OTHERS]), max_size=8), st.sampled_from(" -/'_"))
def test_a_text_that_tells_of_a_change_is_never_passed_over(words: list[str], gap: str) -> None:
    for text in (" ".join(words), gap.join(words), " ".join(words).upper()):
        assert may_tell_change(text) or not parse_statement(text).changes


def test_a_replaced_value_is_never_passed_over() -> None:
    found = [(a, b) for pair in PAIRS for a, b in permutations(pair)]
    replaced = [(a, b) for a, b in found if replaces_value(parse_statement(a), parse_statement(b))]
    assert replaced
    assert all(may_tell_change(b) or may_differ_in_value(first_keys(a), first_keys(b)) for a, b in replaced)


def test_most_statements_need_no_parsing() -> None:
    assert not may_tell_change("Nora lives in Kiel with two cats.")
    assert may_tell_change("Nora moved to Kiel.")
    assert may_tell_change("Nora lebt jetzt in Köln.")
