"""Checks of the language: how docstrings open, which documents texts cite, and how many names are one word."""

import ast
import re
from collections.abc import Iterable

from tests.architecture.checks import Function, Source

_OPENINGS = """
what who whose whom whether which of as how why where when those that if in by so with to for from is are does has it
its not or but because while than then there here
"""
REFUSED_OPENINGS = frozenset(_OPENINGS.split())
"""Words that open a subordinate clause or a riddle, and never an imperative or a noun phrase."""

_DESCRIBING = """
adds answers applies asks binds builds calls checks computes converts copies creates decides deletes drops embeds
encodes erases finds gets gives goes keeps knows lists loads locks looks makes marks merges moves
opens prints puts raises reads refuses removes renders returns runs says sees sends sets stores takes tells turns
validates waits writes yields
"""
THIRD_PERSON = frozenset(_DESCRIBING.split())
"""Verbs that describe a function from outside. A function's docstring uses the imperative: Return, Raise."""

_WORD = re.compile(r"[A-Za-z']+")


def docstring_openings(source: Source) -> list[str]:
    """Find docstrings that open neither with an imperative verb nor with a noun phrase."""
    return [
        source.at(node, f"a docstring opens with {word!r}")
        for node, text in _docstrings(source.nodes)
        for word in _WORD.findall(text)[:1]
        if word.lower() in REFUSED_OPENINGS or (isinstance(node, Function) and word.lower() in THIRD_PERSON)
    ]


def _docstrings(nodes: Iterable[ast.AST]) -> Iterable[tuple[ast.AST, str]]:
    """Yield each docstring of a module, class or function, and each string that follows an assignment."""
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | Function) and (text := ast.get_docstring(node)):
            yield node, text
        if isinstance(node, ast.Module | ast.ClassDef):
            pairs = zip(node.body, node.body[1:], strict=False)
            yield from ((after, text) for before, after in pairs if (text := _text_after(before, after)))


def _text_after(before: ast.stmt, after: ast.stmt) -> str | None:
    """Return the string that documents an assignment, or None."""
    if isinstance(before, ast.Assign | ast.AnnAssign) and isinstance(after, ast.Expr):
        return after.value.value if isinstance(after.value, ast.Constant) else None
    return None


ABSENT = re.compile(r"\bseeds? 00\d|\bSPEC\b|\bDESIGN\b")
"""Names of documents that the repository does not have."""


def absent_documents(source: Source) -> list[str]:
    """Find citations of documents that the repository does not have."""
    if source.inside("tests/architecture/"):  # the rules quote what they refuse
        return []
    lines = enumerate(source.text.splitlines(), 1)
    return [f"{source.path}:{number} cites {hit[0]}" for number, line in lines if (hit := ABSENT.search(line))]


def one_word_share(sources: Iterable[Source]) -> float:
    """Return the share of functions whose name is one word. Names such as `__init__` do not count."""
    names = [node.name for source in sources for node in source.nodes if isinstance(node, Function)]
    ours = [name for name in names if not name.startswith("__")]
    return sum("_" not in name.strip("_") for name in ours) / len(ours)
