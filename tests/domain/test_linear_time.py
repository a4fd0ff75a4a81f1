"""Linear time of the pure functions and the patterns that read a caller's text.

Separate processes give hostile texts to every function and to every compiled pattern, and measure their CPU time. The
time that a machine needs says nothing by itself: a slow call is compared with one on four times the text, in the same
process. The longer text takes four times as long where the work is linear, and sixteen times where it is quadratic.
The functions read units that are repeated alone, in pairs and in triples; MNEMA_TEST_TEXT_BYTES sets the length.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adversarial.cpu import end_endless_calls, grows_too_fast
from tests.adversarial.patterns import Uses, find_slow_text, read_in, read_words
from tests.adversarial.units import FURTHER, UNITS, combined_units
from tests.effort import DEEP

CHARACTERS = int(os.environ.get("MNEMA_TEST_TEXT_BYTES", 1 << (14 if DEEP else 12)))
ROUNDS = 8 if DEEP else 1


def run_program(*arguments: str) -> str:
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.long
def test_hostile_texts_take_linear_time() -> None:
    told = run_program("tests.adversarial", str(CHARACTERS), str(ROUNDS))
    assert re.fullmatch(r"\d+ functions\n", told), told


@pytest.mark.long
def test_every_pattern_takes_linear_time() -> None:
    told = run_program("tests.adversarial.patterns")
    count = re.fullmatch(r"(\d+) patterns\n", told)
    assert count, told
    assert int(count[1]) > 500


def test_the_growth_of_quadratic_work_is_found() -> None:
    def count_quadratic(text: str) -> int:
        return sum(text.count("b", at) for at in range(0, len(text), 20))

    def build(size: int) -> str:
        return "a" * size

    assert grows_too_fast(count_quadratic, build, 12_500)
    assert not grows_too_fast(
        lambda text: [count_quadratic(text[:10_000]) for _ in range(len(text) // 2000)], build, 12_500
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("slow", "way", "linear"),
    [
        (r"\s+$", "search", r"(?<!\s)\s+$"),
        (r"\d+\.\d", "search", r"(?<!\d)\d++\.\d"),
        (r"swap (.+) for (.+) now", "fullmatch", r"swap ([^ ]+) for (.+) now"),
        (r"(?:very |really )*good", "search", r"(?:very |really ){0,3}good"),
    ],
)
def test_a_quadratic_pattern_is_found_by_its_own_words(slow: str, way: str, linear: str) -> None:
    with end_endless_calls():
        assert find_slow_text(read_in(way, re.compile(slow)), slow)
        assert not find_slow_text(read_in(way, re.compile(linear)), linear)


def test_the_words_of_a_pattern_are_read_without_its_syntax() -> None:
    assert read_words(r"\b(?P<who>my dog)\.(?:s|barks){2,3} (?i:loud)\d") == ["my dog ", "barks ", "loud "]


def test_a_pattern_is_tried_in_the_ways_that_the_source_uses() -> None:
    uses = Uses()
    uses.read_file(
        "app/a.py",
        "import re\n_A = re.compile('a')\nB = re.compile('b')\n_C = (re.compile('c'),)\n_D = re.compile('d')\n"
        "_A.fullmatch(x)\n[one.match(x) for one in _C]\ncall(_D)\n_D.match(x)\nre.sub('e', '', x)\n",
    )
    uses.read_file("app/b.py", "from app.a import B\nB.sub('', x)\n")
    ways = [uses.find_ways("app/a.py", line) for line in (2, 3, 4, 5)]
    assert ways == [{"fullmatch"}, {"search"}, {"match"}, {"search", "fullmatch"}]
    assert [(line, way) for _, line, way, _ in uses.calls] == [(10, "search")]


def test_a_pattern_of_a_table_is_tried_in_the_ways_that_its_rule_uses() -> None:
    uses = Uses()
    uses.read_file(
        "app/a.py",
        "_EN: Final = english.patterns('x', 'one')\n_FORMS: Final = english.forms('x', 'one')\n"
        "A: Final = _EN.a\n_EN.b.search(x)\n[form.fullmatch(x) for form in _FORMS.c]\ncall(_EN.d)\n",
    )
    uses.read_file(
        "app/b.py", "from app.a import A\n_EN: Final = english.patterns('x', 'two')\nA.match(x)\n_EN.b.match(x)\n"
    )
    ways = [uses.find_table_ways("x.toml one", name) for name in ("a", "b", "c", "d")]
    assert ways == [{"match"}, {"search"}, {"fullmatch"}, {"search", "fullmatch"}]
    assert uses.find_table_ways("x.toml two", "b") == {"match"}


def test_each_unit_is_combined_once_in_a_round() -> None:
    combined = list(combined_units("seed", 1))
    assert sorted(unit for hostile in combined for unit in hostile.units) == sorted([*UNITS, *FURTHER])
    assert combined == list(combined_units("seed", 1)) != list(combined_units("other", 1))
