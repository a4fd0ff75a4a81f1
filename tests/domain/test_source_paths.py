"""Patterns and paths of sources. `pathspec`, which follows Git, is the oracle of patterns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pathspec import PathSpec

from app.domain.errors import InvalidInput
from app.domain.sources.paths import MAX_DEPTH, MAX_PATH_BYTES, find_path_problem, parse_rules, show_path, split_path

NAMES = st.text("ab.", min_size=1, max_size=3).filter(lambda name: name not in (".", ".."))
GLOBS = st.text("ab*?", min_size=1, max_size=4).filter(lambda name: name.strip("*")) | st.sampled_from(
    ["**", "*", "[ab]", "[!a]*", "a.*", "*.b"]
)
PATTERNS = st.builds(
    lambda start, names, end: start + "/".join(names) + end,
    st.sampled_from(["", "/"]),
    st.lists(GLOBS, min_size=1, max_size=4),
    st.sampled_from(["", "/"]),
).filter(lambda text: text.strip("/*") and not text.endswith(("**/", "/*")))
"""Patterns that both read alike.

Git takes `a/**/` for the folders below `a`, and pathspec for the files of `a` too. Git takes `a/*` for all that is
below `a`, and pathspec only for what is in `a` itself.
"""


@given(st.lists(PATTERNS, min_size=1, max_size=3), st.lists(NAMES, min_size=1, max_size=5))
def test_patterns_match_as_those_of_git(patterns: list[str], parts: list[str]) -> None:
    expected = any(PathSpec.from_lines("gitignore", [pattern]).match_file("/".join(parts)) for pattern in patterns)
    assert parse_rules(patterns, ()).takes_file(parts) is expected, (patterns, parts)
    assert parse_rules((), patterns).takes_file(parts) is not expected, (patterns, parts)


def test_a_star_matches_a_folder_with_all_that_is_in_it() -> None:
    assert parse_rules(("?/*",), ()).takes_file(("a", "b", "c"))
    assert not parse_rules(("?/*",), ()).takes_file(("a",))


@pytest.mark.parametrize(
    "pattern", ["", "/", "!a", "a\\b", "a//b", "../a", "a/..", ".", "a\n", "a\0", "a" * 201, "\ud800"]
)
def test_bad_patterns(pattern: str) -> None:
    with pytest.raises(InvalidInput, match="include"):
        parse_rules((pattern,), ())


def test_too_many_patterns() -> None:
    with pytest.raises(InvalidInput, match="50"):
        parse_rules((), ["a"] * 51)


HOSTILE = st.text("a\n\\\u202e\u00e9/…x0" + "\udc85\x85\ud800", max_size=12) | st.text(
    "a/\n\udcff", min_size=1_000, max_size=1_100
)


@given(HOSTILE, HOSTILE)
def test_every_path_is_shown_by_a_usable_and_own_name(one: str, other: str) -> None:
    for path in (one, other):
        shown = show_path(path)
        assert find_path_problem(path) is None or "\\" in shown
        assert find_path_problem(shown.replace("\\", "")) is None
    assert (show_path(one) == show_path(other)) is (one == other)


def test_paths_are_bounded() -> None:
    assert find_path_problem("a" * MAX_PATH_BYTES) is None
    assert find_path_problem("é" * (MAX_PATH_BYTES // 2 + 1)) is not None
    assert find_path_problem("/".join("a" * MAX_DEPTH)) is None
    assert find_path_problem("/".join("a" * (MAX_DEPTH + 1))) is not None
    assert show_path("a\tb\x85\udcff\u202e") == "a\\tb\\u0085\\xff\\u202e"


@pytest.mark.parametrize(
    "path", ["/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a/.git/b", "a~", "a\0", "a\\b", "\udc80"]
)
def test_no_path_leaves_a_root(path: str) -> None:
    with pytest.raises(InvalidInput, match="path"):
        split_path(path)
    assert split_path("") == ()
    assert split_path("a/b c.md") == ("a", "b c.md")
