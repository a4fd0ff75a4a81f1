"""Hostile texts for every compiled pattern of the application.

Run as a program, it names the patterns whose time grows faster than the text. It records the patterns that the modules
of `app` compile as they are imported, wherever they keep them, and the literal patterns of calls like re.sub.
"""

import ast
import collections
import functools
import heapq
import importlib
import inspect
import pkgutil
import random
import re
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from app.domain import english
from tests.adversarial.cpu import (
    SUSPICIOUS,
    Build,
    Work,
    end_endless_calls,
    grows_too_fast,
    measure_cpu,
    measure_least,
    measure_yardstick,
)

ROOT: Final = Path(__file__).parents[2]
SIZE: Final = 1000
FLOOR: Final = 0.5
"""A call that takes less than this part of plain work's time is not looked at again: a quadratic search takes more.

It is no number of seconds, for a fast machine does quadratic work on SIZE characters in the time of a slow one's plain.
"""
ENGLISH: Final = "app/domain/english.py"
"""The module that compiles the patterns of the TOML files, which have names of their own."""
WAYS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("search", "finditer", "findall", "split", "sub", "subn"), "search"),
    **{"match": "match", "fullmatch": "fullmatch"},
}
"""The methods of a pattern, and the way in which each reads a text."""
ALL_WAYS: Final = frozenset({"search", "fullmatch"})
"""A search also does what a match does."""
HEAVY: Final = 0.05
"""CPU seconds on SIZE characters. A slower call is looked at again at once."""
LOOKED_AT: Final = 8
"""The slowest calls of a pattern that are looked at again."""
BOUNDED: Final[Mapping[str, int]] = {
    "facts.toml moves replaced": 300,
    "facts.toml moves replaced_bare": 300,
    "facts.toml questions tail": 600,
    "facts.toml statements own_words": 1000,
    "facts.toml values trail": 40,
    "facts.toml values dangling": 8,
}
"""The patterns that read no more than so many characters of a text: they may grow faster up to there."""
UNITS: Final = (
    *(" ", "\t", "\n", "\r\n", " \n", "a", "a ", "A", "Aa ", "A ", "a\n", "1", "1 ", "1,", "1.", "1:", "é", "\u0301"),
    *(".", ". ", "a.", ",", ", ", "a, ", "-", "- ", "a-", "'", "a'", '"', "“", "…", "!", "? ", ":", ": ", ";", "; "),
    *("(", ")", "[", "[[", "{", "<", "</", "*", "_", "`", "#", "# ", "|", "/", "\\", "@", "$", "%", "&", "=", "+", "~"),
    *(
        "- a\n",
        "1. a\n",
        "and ",
        "not ",
        "my ",
        "I ",
        "the ",
        "is ",
        "to ",
        "a the ",
        "a and ",
        "a for ",
        "1 a ",
        "a@a.",
    ),
)
"""Units that most patterns know a part of. Each pattern's own words are added."""
END: Final = "\x00,;.?!\"'\n"
"""The end of each text. Hardly any pattern goes on through all of it."""
_SYNTAX: Final = re.compile(r"\\[A-Za-z]|\\\d+|\(\?(?:P<\w+>|[aimsux-]+:?|[:=!>]|<[=!])|\{\d*,?\d*\}")
_WORDS: Final = re.compile(r"[^\W\d_][\w' ]+")


class Compiled(NamedTuple):
    """A pattern of the application: its place and name for a message, and the ways in which it is used."""

    place: str
    pattern: re.Pattern[str]
    ways: Collection[str]


class Uses(ast.NodeVisitor):
    """The names of patterns in the application's source, and the methods that are called on each name.

    A name that a loop gives to each pattern of a container counts as the container's.
    """

    def __init__(self) -> None:
        self.names: dict[tuple[str, int], str] = {}
        self.calls: list[tuple[str, int, str, ast.expr]] = []
        self._methods: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
        self._file = ""
        self._imported: dict[str, tuple[str, str]] = {}
        self._containers: dict[str, set[tuple[str, str]]] = {}
        self._looped: set[ast.expr] = set()
        self._tables: dict[str, str] = {}
        self._aliases: dict[tuple[str, str], set[tuple[str, str]]] = collections.defaultdict(set)

    def read_file(self, file: str, source: str) -> None:
        """Add a module's source."""
        self._file, self._imported, self._containers, self._looped = file, {}, collections.defaultdict(set), set()
        self._tables = {}
        tree = ast.parse(source)
        for statement in tree.body:
            self._read_table(statement)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                module = f"{(node.module or '').replace('.', '/')}.py"
                self._imported.update({alias.asname or alias.name: (module, alias.name) for alias in node.names})
            if isinstance(node, ast.For | ast.comprehension) and (name := _name_of(node.iter)):
                self._looped.add(node.iter)
                for target in ast.walk(node.target):
                    if isinstance(target, ast.Name):
                        self._containers[target.id].add(self._container_key(node.iter))
        for statement in tree.body:
            targets = [statement.target] if isinstance(statement, ast.AnnAssign) else getattr(statement, "targets", [])
            lines = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
            self.names.update(
                {(file, line): name for target in targets if (name := _name_of(target)) for line in lines}
            )
        self.visit(tree)

    def _read_table(self, statement: ast.stmt) -> None:
        """Note the name of a table of English patterns, and that of one of its patterns."""
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            return
        value = statement.value
        if isinstance(value, ast.Call) and _name_of(value.func) in {"patterns", "forms"}:
            capability, rule = map(ast.literal_eval, value.args)
            self._tables[statement.target.id] = f"{capability}.toml {rule}"
        elif isinstance(value, ast.Attribute) and (key := self._table_key(value)):
            self._aliases[key].add((self._file, statement.target.id))
            self._looped.add(value)

    def _table_key(self, node: ast.Attribute) -> tuple[str, str] | None:
        table = self._tables.get(_name_of(node.value)) if isinstance(node.value, ast.Name) else None
        return (table, node.attr) if table else None

    def find_ways(self, file: str, line: int) -> frozenset[str]:
        """Return the ways in which the pattern of this place is used: all if they cannot be known."""
        name = self.names.get((file, line), "")
        ways = self._methods[file, name] | self._methods["", name] if name else set()
        return frozenset(ways) if ways and "" not in ways else ALL_WAYS

    def find_table_ways(self, table: str, name: str) -> frozenset[str]:
        """Return the ways in which the patterns of a table's name are used."""
        ways = self._methods[table, name].union(*(self._methods[alias] for alias in self._aliases[table, name]))
        return frozenset(ways) if ways and "" not in ways else ALL_WAYS

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Add a method that is called on a name, or a name of another module."""
        if node.attr in WAYS and _name_of(node.value):
            self._add(node.value, WAYS[node.attr])
        elif node not in self._looped:
            self._add(node, "")
            self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        """Add a use that says nothing of the method."""
        if isinstance(node.ctx, ast.Load) and node not in self._looped:
            self._add(node, "")

    def visit_Call(self, node: ast.Call) -> None:
        """Add a call like re.sub("pattern", …)."""
        function = node.func
        if isinstance(function, ast.Attribute) and _name_of(function.value) == "re" and function.attr in WAYS:
            self.calls.append((self._file, node.lineno, WAYS[function.attr], node.args[0]))
        self.generic_visit(node)

    def _add(self, node: ast.expr, way: str) -> None:
        if isinstance(node, ast.Attribute):  # a name of a table, or of a module, which is not looked up
            self._methods[self._table_key(node) or ("", node.attr)].add(way)
            return
        name = _name_of(node)
        for key in (self._key_of(name), *self._containers.get(name, ())):
            self._methods[key].add(way)

    def _container_key(self, node: ast.expr) -> tuple[str, str]:
        if isinstance(node, ast.Attribute):
            return self._table_key(node) or ("", node.attr)
        return self._key_of(_name_of(node))

    def _key_of(self, name: str) -> tuple[str, str]:
        return self._imported.get(name, (self._file, name))


def _name_of(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def read_uses() -> Uses:
    """Return the uses of patterns in all modules."""
    uses = Uses()
    for path in sorted((ROOT / "app").rglob("*.py")):
        uses.read_file(str(path.relative_to(ROOT)), path.read_text())
    return uses


def import_recorded(package: str) -> Mapping[re.Pattern[str], tuple[str, int]]:
    """Import all modules of a package. Return each pattern of text that they compile, with its file and line."""
    compiled: dict[re.Pattern[str], tuple[str, int]] = {}
    compile_pattern = re.compile

    def record(pattern: str, flags: int = 0) -> re.Pattern[str]:
        done = compile_pattern(pattern, flags)
        frame = inspect.currentframe()
        caller = frame and frame.f_back
        if caller and caller.f_code.co_filename.startswith(str(ROOT / package)) and isinstance(done.pattern, str):
            file = str(Path(caller.f_code.co_filename).relative_to(ROOT))
            compiled.setdefault(done, (file, caller.f_lineno))
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(re, "compile", record)
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    return compiled


def find_patterns() -> Iterator[Compiled]:
    """Yield the patterns of the application."""
    compiled = import_recorded("app")
    uses = read_uses()
    for capability, rule in english.all_rules():
        for name, made in english.forms(capability, rule).as_dict().items():
            table = f"{capability}.toml {rule}"
            ways = uses.find_table_ways(table, name)
            yield from (Compiled(f"{table} {name}", pattern, ways) for pattern in made)
    for pattern, (file, line) in compiled.items():
        if file == ENGLISH:
            continue
        name = uses.names.get((file, line), "")
        yield Compiled(f"{file} {name or line}", pattern, uses.find_ways(file, line))
    for file, line, way, called in uses.calls:
        if isinstance(called, ast.Constant) and isinstance(called.value, str):
            yield Compiled(f"{file} {line}", re.compile(called.value), {way})


def read_words(pattern: str) -> list[str]:
    """Return the words and phrases that a pattern's source spells out."""
    plain = re.sub(r"\\(.)", r"\1", _SYNTAX.sub("\x00", pattern))
    return list(dict.fromkeys(f"{word.strip()} " for word in _WORDS.findall(plain)))


def find_texts(pattern: str) -> Iterator[tuple[str, Build]]:
    """Yield hostile texts: the usual units, some of the pattern's own words, and pairs, each also after a word."""
    chosen = random.Random(ascii(pattern))
    words = read_words(pattern)
    words = [*words[:1], *chosen.sample(words[1:], min(len(words), 24) - 1)] if words else []
    units = [*UNITS, *words, *(word.strip() for word in words)]
    units += ["".join(chosen.sample(units, 2)) for _ in range(24)]
    for unit in units:
        starts = {"": None, words[0]: None, chosen.choice(words): None} if words else {"": None}
        for start in starts:
            yield f"{start!r} + n * {unit!r}", partial(_repeat, start, unit)


def _repeat(start: str, unit: str, size: int) -> str:
    return start + unit * (size // len(unit)) + END


def read_in(way: str, pattern: re.Pattern[str]) -> Work:
    """Return the work of a pattern on a text."""
    if way == "search":
        return lambda text: collections.deque(pattern.finditer(text), 0)
    return pattern.fullmatch if way == "fullmatch" else pattern.match


def find_slow_text(work: Work, pattern: str) -> str:
    """Return the description of a text for which the time grows faster than the text; empty if none is found.

    Each text is read once. The slowest are read again and compared with longer ones.
    """
    timed: list[tuple[float, str, Build]] = []
    for told, build in find_texts(pattern):
        cpu = measure_cpu(work, build(SIZE))
        if cpu > HEAVY and _grows(work, build):
            return told
        timed.append((cpu, told, build))
    slowest = heapq.nlargest(LOOKED_AT, timed, key=itemgetter(0))
    floor = FLOOR * plain_time()
    return next((told for cpu, told, build in slowest if cpu > floor and _grows(work, build)), "")


@functools.cache
def plain_time() -> float:
    """Return the CPU seconds that plain work on SIZE characters takes on this machine."""
    return measure_yardstick(SIZE)


def _grows(work: Work, build: Build) -> bool:
    return grows_too_fast(work, build, SIZE, times=8)


def find_heavy_text(work: Work, pattern: str, limit: int) -> str:
    """Return the description of a text of `limit` characters that takes far more than plain work; empty if none is."""
    allowed = SUSPICIOUS * measure_yardstick(4 * SIZE)
    return next((told for told, build in find_texts(pattern) if measure_least(work, build(limit)) > allowed), "")


def main() -> None:
    """Print each slow pattern, and at last the number of patterns."""
    patterns = list(find_patterns())
    with end_endless_calls():
        for place, pattern, ways in patterns:
            for way in sorted(ways):
                work, limit = read_in(way, pattern), BOUNDED.get(place)
                slow = find_heavy_text(work, pattern.pattern, limit) if limit else find_slow_text(work, pattern.pattern)
                if slow:
                    print(f"{place}: {way} of {slow} is not linear: {pattern.pattern[:80]}", flush=True)
    print(f"{len(patterns)} patterns")


if __name__ == "__main__":
    main()
