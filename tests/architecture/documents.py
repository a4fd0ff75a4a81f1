"""Checks of the documents: each takes one of them and returns what is wrong, as `path:line what`."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tests.architecture.prose import ABSENT

MAX_README = 150
FOLDERS = r"(?:app|bench|config|docs|migrations|sdk|tests|workers|\.ci)"


@dataclass(frozen=True, slots=True)
class Document:
    """A Markdown file of the repository at `root`; `path` is relative to it."""

    root: Path
    path: str
    text: str

    def lines(self) -> Iterator[tuple[int, str]]:
        """Return the lines with their numbers."""
        return enumerate(self.text.splitlines(), 1)


Check: TypeAlias = Callable[[Document], list[str]]

_PATH = re.compile(rf"(?<![\w./\-…]){FOLDERS}/[\w.<>*/\-]*\w>?(?:/(?=\W|$))?(?:::(?P<name>\w+(?:\.\w+)*))?")
_MODULE = re.compile(rf"-m ({FOLDERS}(?:\.\w+)+)")


def missing_paths(document: Document) -> list[str]:
    """Return the paths, modules and `path::names` that do not exist. `<name>` and `*` stand for anything."""
    found = []
    for number, line in document.lines():
        for match in _PATH.finditer(line):
            path, _, name = match.group().partition("::")
            pattern = re.sub(r"<\w+>", "*", path.rstrip("/"))
            if not any(document.root.glob(pattern)):
                found.append(f"{document.path}:{number} {path}")
            elif name and not _defines(document.root / path, name):
                found.append(f"{document.path}:{number} {path}::{name}")
        for module in _MODULE.findall(line):
            path = module.replace(".", "/")
            if not (document.root / f"{path}.py").exists() and not (document.root / path / "__main__.py").exists():
                found.append(f"{document.path}:{number} {module}")
    return found


def _defines(path: Path, name: str) -> bool:
    """Tell whether a Python file defines a name, or a method `Class.method`."""
    nodes: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    for part in name.split("."):
        hit = next((node for node in nodes if part in _bound_names(node)), None)
        if hit is None:
            return False
        nodes = getattr(hit, "body", [])
    return True


def _bound_names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


_LINK = re.compile(r"\]\(([^)\s]+)\)")


def broken_links(document: Document) -> list[str]:
    """Return the relative links whose file or #anchor does not exist."""
    found = []
    for number, line in document.lines():
        for link in _LINK.findall(line):
            if "://" in link:
                continue
            name, _, anchor = link.partition("#")
            target = document.root / Path(document.path).parent / name if name else document.root / document.path
            if not target.exists() or (anchor and anchor not in _anchors(target)):
                found.append(f"{document.path}:{number} {link}")
    return found


def _anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)$")


def unclear_fences(document: Document) -> list[str]:
    """Return the code blocks without a language, or in a list with other than four spaces: the site wants these."""
    found, inside = [], False
    for number, line in document.lines():
        if fence := _FENCE.match(line):
            inside = not inside
            if len(fence["indent"]) not in (0, 4) or (inside and not fence["language"]):
                found.append(f"{document.path}:{number} {line}")
    return found


def absent_citations(document: Document) -> list[str]:
    """Return the citations of documents that are not in the repository."""
    return [f"{document.path}:{number} {hit}" for number, line in document.lines() for hit in ABSENT.findall(line)]


def long_readme(document: Document) -> list[str]:
    """Return the length of a README of more than 150 lines."""
    lines = len(document.text.splitlines())
    return [f"{document.path}:{lines} {lines} lines"] if document.path == "README.md" and lines > MAX_README else []


def names_folder(text: str, folder: str) -> bool:
    """Tell whether a text names a folder as `folder` or as the beginning of a path."""
    return re.search(rf"(?<![\w./\-]){re.escape(folder)}(?![\w.\-])", text) is not None
