"""The English words and patterns of the rules, from the TOML files of `phrasebooks/en`, a table for each rule.

A table may have `parts`, `words`, `pairs` and `cased`; each other name in it is a pattern, or a list of patterns.
`{name}` in a pattern stands for a part, of the table or of the file. Patterns ignore case, unless they are `cased`.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
FOLDER: Final = Path(__file__).parent / "phrasebooks" / "en"
_PLACE: Final = re.compile(r"\{([a-z_]+)\}")
_MOST_NESTED: Final = 8
_KINDS: Final = ("parts", "words", "pairs", "cased")


class Named(Generic[T]):
    """Values by name, as attributes."""

    def __init__(self, values: Mapping[str, T]) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> T:
        raise AttributeError(f"no English table has {name!r}")


@cache
def words(capability: str, rule: str) -> Named[frozenset[str]]:
    """Return the sets of words of a rule."""
    table = _read_table(capability, rule)
    return Named({name: frozenset(text.split()) for name, text in table.get("words", {}).items()})


@cache
def pairs(capability: str, rule: str) -> Named[Mapping[str, str]]:
    """Return the tables of a rule that give one word for another: "colour: color | flavour: flavor"."""
    table = _read_table(capability, rule)
    return Named({name: _read_pairs(text) for name, text in table.get("pairs", {}).items()})


@cache
def patterns(capability: str, rule: str) -> Named[re.Pattern[str]]:
    """Return the patterns of a rule."""
    return Named({name: made[0] for name, made in _compile_all(capability, rule).items() if len(made) == 1})


@cache
def forms(capability: str, rule: str) -> Named[tuple[re.Pattern[str], ...]]:
    """Return the lists of patterns of a rule."""
    return Named(_compile_all(capability, rule))


def all_rules() -> Iterator[tuple[str, str]]:
    """Yield the capability and the name of each rule that has a table."""
    for path in sorted(FOLDER.glob("*.toml")):
        yield from ((path.stem, rule) for rule in _read_file(path.stem) if rule != "parts")


@cache
def _read_file(capability: str) -> Mapping[str, Any]:
    return tomllib.loads((FOLDER / f"{capability}.toml").read_text(encoding="utf-8"))


def _read_table(capability: str, rule: str) -> Mapping[str, Any]:
    table: Mapping[str, Any] = _read_file(capability)[rule]
    return table


def _read_pairs(text: str) -> dict[str, str]:
    named = (pair.partition(":") for pair in text.split("|"))
    return {" ".join(word.split()): " ".join(other.split()) for word, _, other in named}


@cache
def _compile_all(capability: str, rule: str) -> dict[str, tuple[re.Pattern[str], ...]]:
    table = _read_table(capability, rule)
    parts = join_lines({**_read_file(capability).get("parts", {}), **table.get("parts", {})})
    plain = {name: value for name, value in table.items() if name not in _KINDS}
    made = {name: _compile(value, parts, re.IGNORECASE) for name, value in plain.items()}
    return made | {name: _compile(value, parts, 0) for name, value in table.get("cased", {}).items()}


def _compile(value: str | list[str], parts: Mapping[str, str], flags: int) -> tuple[re.Pattern[str], ...]:
    sources = [value] if isinstance(value, str) else value
    return tuple(re.compile(fill_places(join_lines(source), parts, "en"), flags) for source in sources)


def fill_places(pattern: str, parts: Mapping[str, str], code: str) -> str:
    """Return a pattern with the parts of a language in the places that name them. Raise ValueError for another name."""

    def fill(place: re.Match[str]) -> str:
        if place[1] not in parts:
            raise ValueError(f"the phrasebook {code} has no pattern {place[1]!r}")
        return f"(?:{parts[place[1]]})"

    for _depth in range(_MOST_NESTED):
        filled = _PLACE.sub(fill, pattern)
        if filled == pattern:
            break
        pattern = filled
    return pattern


def join_lines(value: Any) -> Any:
    """Return tables in which a pattern of several lines is one line. The blanks around a line break do not count."""
    if isinstance(value, dict):
        return {name: join_lines(part) for name, part in value.items()}
    if isinstance(value, list):
        return [join_lines(part) for part in value]
    if isinstance(value, str) and "\n" in value:
        return "".join(line.strip() for line in value.split("\n"))
    return value
