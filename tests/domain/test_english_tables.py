"""The tables of English words and patterns: each name in them is used, and each use names one."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from app.domain import english

ROOT = Path(__file__).parents[2]
KINDS = ("words", "pairs", "patterns", "forms")
RULES = tuple(english.all_rules())


class Use(NamedTuple):
    """A table that a module loads, and the names that the module reads of it."""

    kind: str
    capability: str
    rule: str
    names: frozenset[str]


def uses_of(source: str) -> Iterator[Use]:
    tree = ast.parse(source)
    for node in tree.body:
        call = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr not in KINDS:
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        read = (n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name))
        names = frozenset(n.attr for n in read if isinstance(target, ast.Name) and n.value.id == target.id)
        yield Use(call.func.attr, *(ast.literal_eval(argument) for argument in call.args), names)


@pytest.fixture(scope="module")
def uses() -> tuple[Use, ...]:
    return tuple(use for path in sorted((ROOT / "app").rglob("*.py")) for use in uses_of(path.read_text()))


def names_of(kind: str, capability: str, rule: str) -> set[str]:
    return set(getattr(english, kind)(capability, rule).as_dict())


def test_each_use_names_what_its_table_has(uses: tuple[Use, ...]) -> None:
    missing = [(use[:3], names) for use in uses if (names := use.names - names_of(*use[:3]) - {"as_dict"})]
    assert uses
    assert missing == []


def test_each_name_of_a_table_is_used(uses: tuple[Use, ...]) -> None:
    unused = {}
    for capability, rule in RULES:
        used = {name for use in uses if use[1:3] == (capability, rule) for name in use.names}
        there = {name for kind in KINDS for name in names_of(kind, capability, rule)}
        assert there, (capability, rule)
        unused[capability, rule] = there - used
    assert RULES
    assert {rule: names for rule, names in unused.items() if names} == {}


def test_an_unknown_name_is_told() -> None:
    with pytest.raises(AttributeError, match="nosuch"):
        _ = english.words("facts", "nouns").nosuch


def test_a_value_is_made_when_it_is_first_read_and_kept() -> None:
    made: list[str] = []

    def make() -> str:
        made.append("value")
        return "value"

    named = english.Named({"one": make, "other": make})
    assert made == []
    assert (named.one, named.one) == ("value", "value")
    assert made == ["value"]
    assert named.as_dict() == {"one": "value", "other": "value"}


def test_all_patterns_are_compiled_at_once_on_demand() -> None:
    english.forms.cache_clear()
    assert all(set(vars(english.forms(*rule))) == {"_makers"} for rule in RULES)
    english.compile_patterns()
    assert sum(len(vars(english.forms(*rule))) - 1 for rule in RULES) > 300


def test_words_and_pairs_are_split_at_blanks_and_bars() -> None:
    assert {"fish", "sheep"} <= english.words("facts", "nouns").invariable
    assert english.pairs("facts", "nouns").irregular["person"] == "people"


def test_no_line_ends_with_a_blank() -> None:
    """Lines of a pattern are joined without the blanks around the break, so a blank there would be lost."""
    lines = [line for path in english.FOLDER.glob("*.toml") for line in path.read_text().splitlines()]
    assert len(lines) > 1000
    assert [line for line in lines if line != line.rstrip()] == []
