"""The quick look for words that two statements do not share: it never misses statements with the same words."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from app.domain.recall.wording import Wording, kept_starts, read_wording

ROOT = Path(__file__).parents[3]
FILES = ("duplicate_pairs", "same_fact_pairs", "merge_pairs", "stale_pairs", "relation_pairs")


def test_statements_with_the_same_words_are_never_passed_over() -> None:
    files = [(ROOT / f"bench/{name}.jsonl").read_text(encoding="utf-8") for name in FILES]
    rows = [json.loads(line) for file in files for line in file.splitlines()]
    texts = {value for row in rows for value in row.values() if isinstance(value, str)}
    groups: dict[tuple[object, ...], list[Wording]] = defaultdict(list)
    for wording in map(read_wording, texts):
        groups[wording.sorted_words, wording.marks].append(wording)
    several = [group for group in groups.values() if len(group) > 1]
    assert len(several) > 100
    for group in several:
        assert len({kept_starts(wording.text) for wording in group} - {None}) <= 1, group


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Martin's mother lives in Zurich.", "The mother of Martin lives in Zurich."),
        ("The fence was painted by Hugo.", "Hugo painted the fence."),
        ("Nora likes 'Middlemarch'.", "Nora enjoys Middlemarch."),
        ("The user dislikes crowds.", "The user does not like crowds."),
        ("The user specialises in paediatric care.", "The user specializes in pediatric care."),
        ("Maya shouldn't travel to twenty-two countries.", "Maya should not travel to 22 countries."),
    ],
)
def test_what_rules_reword_does_not_count(one: str, other: str) -> None:
    assert kept_starts(one) == kept_starts(other)


def test_statements_with_other_words_are_told_apart() -> None:
    assert kept_starts("Lena returned the solar panels.") != kept_starts("Lena returned the camera.")
    assert kept_starts("Lena wohnt in Köln.") is None
