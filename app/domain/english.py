"""The English words and patterns of the rules, from the TOML files of `phrasebooks/en`, a table for each rule.

A table may have `parts`, `words`, `pairs` and `cased`; each other name in it is a pattern, or a list of patterns.
`{name}` in a pattern stands for a part, of the table or of the file. Patterns ignore case, unless they are `cased`.
A pattern is compiled when it is first read: to compile all takes a tenth of the start of a server, and most commands
use none.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
FOLDER: Final = Path(__file__).parent / "phrasebooks" / "en"
_PLACE: Final = re.compile(r"\{([a-z_]+)\}")
_MOST_NESTED: Final = 8
_KINDS: Final = ("parts", "words", "pairs", "cased")


class Named(Generic[T]):
    """Values by name, as attributes. A value is made when it is first read, and kept."""

    def __init__(self, makers: Mapping[str, Callable[[], T]]) -> None:
        self._makers = makers

    def __getattr__(self, name: str) -> T:
        makers: Mapping[str, Callable[[], T]] = self.__dict__.get("_makers", {})
        if name not in makers:
            raise AttributeError(f"no English table has {name!r}")
        value = self.__dict__[name] = makers[name]()
        return value

    def as_dict(self) -> dict[str, T]:
        """Return all values by name."""
        return {name: getattr(self, name) for name in self._makers}


@cache
def words(capability: str, rule: str) -> Named[frozenset[str]]:
    """Return the sets of words of a rule."""
    table = _read_table(capability, rule)
    return Named({name: partial(_read_words, text) for name, text in table.get("words", {}).items()})


@cache
def pairs(capability: str, rule: str) -> Named[Mapping[str, str]]:
    """Return the tables of a rule that give one word for another: "colour: color | flavour: flavor"."""
    table = _read_table(capability, rule)
    return Named({name: partial(_read_pairs, text) for name, text in table.get("pairs", {}).items()})


@cache
def patterns(capability: str, rule: str) -> Named[re.Pattern[str]]:
    """Return the patterns of a rule."""
    sources = _read_sources(capability, rule)
    alone = (name for name, listed in sources.items() if len(listed) == 1)
    return Named({name: partial(_compile_one, capability, rule, name) for name in alone})


@cache
def forms(capability: str, rule: str) -> Named[tuple[re.Pattern[str], ...]]:
    """Return the lists of patterns of a rule."""
    return Named({name: partial(_compile, capability, rule, name) for name in _read_sources(capability, rule)})


def compile_patterns() -> None:
    """Compile all patterns of all tables."""
    for capability, rule in all_rules():
        forms(capability, rule).as_dict()


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


def _read_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _read_pairs(text: str) -> dict[str, str]:
    named = (pair.partition(":") for pair in text.split("|"))
    return {" ".join(word.split()): " ".join(other.split()) for word, _, other in named}


def _read_sources(capability: str, rule: str) -> dict[str, list[str]]:
    """Return the sources of the patterns by name. Their parts are not filled in."""
    table = _read_table(capability, rule)
    plain = {name: value for name, value in table.items() if name not in _KINDS}
    made = plain | table.get("cased", {})
    return {name: [value] if isinstance(value, str) else value for name, value in made.items()}


@cache
def _read_parts(capability: str, rule: str) -> Mapping[str, str]:
    parts: Mapping[str, str] = join_lines(
        {**_read_file(capability).get("parts", {}), **_read_table(capability, rule).get("parts", {})}
    )
    return parts


def _compile_one(capability: str, rule: str, name: str) -> re.Pattern[str]:
    return _compile(capability, rule, name)[0]


@cache
def _compile(capability: str, rule: str, name: str) -> tuple[re.Pattern[str], ...]:
    flags = 0 if name in _read_table(capability, rule).get("cased", {}) else re.IGNORECASE
    parts = _read_parts(capability, rule)
    sources = _read_sources(capability, rule)[name]
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
