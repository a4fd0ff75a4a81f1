"""The rules of the house as functions: each takes one source and returns its offences as `path:line offence`."""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, TypeAlias

MAX_MODULE: Final = 500
MAX_FUNCTION: Final = 60
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Definition: TypeAlias = Function | ast.ClassDef


@dataclass(frozen=True)
class Source:
    """One file: its path inside the repository, in POSIX form, and its text."""

    path: str
    text: str

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of a Python file."""
        return list(ast.walk(ast.parse(self.text))) if self.path.endswith(".py") else []

    def inside(self, *places: str) -> bool:
        """Return True for one of these files, and below one of these folders (which end in a slash)."""
        return any(self.path == place or (place.endswith("/") and self.path.startswith(place)) for place in places)

    def at(self, node: ast.AST, what: str) -> str:
        """A complaint about a node."""
        return f"{self.path}:{getattr(node, 'lineno', 1)} {what}"


Check: TypeAlias = Callable[[Source], list[str]]


def module_size(source: Source) -> list[str]:
    """Modules have at most 500 lines."""
    lines = len(source.text.splitlines())
    return [f"{source.path}:{lines} module of {lines} lines"] if lines > MAX_MODULE else []


def function_size(source: Source) -> list[str]:
    """Functions have at most 60 lines, from `def` to the last one."""
    found = []
    for node in source.nodes:
        if isinstance(node, Function):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION:
                found.append(source.at(node, f"{node.name} has {lines} lines"))
    return found


_COMMIT = re.compile(r"\bCOMMIT\b|(?i:^\s*commit\s*;?\s*$)")  # in prose the word is written small


def commits(source: Source) -> list[str]:
    """Only the unit of work and a move's session commit; only operators' work opens transactions by itself."""
    found = []
    if not source.inside("app/storage/uow.py", "app/storage/clusters/move_session.py"):
        found += [source.at(n, ".commit(") for n in _method_calls(source, "commit")]
        found += [f"{source.path}:{line} COMMIT" for line, sql in _sql(source) if _COMMIT.search(sql)]
    operators = (
        "app/storage/operations/administration.py",
        "app/storage/operations/bootstrap.py",
        "app/storage/clusters/joining.py",
    )
    if not source.inside("app/storage/uow.py", *operators):
        found += [source.at(n, ".transaction(") for n in _method_calls(source, "transaction")]
    return found


_JOURNALED = re.compile(
    r"\b(INSERT\s+INTO|UPDATE|DELETE\s+FROM|MERGE\s+INTO|TRUNCATE(\s+TABLE)?|COPY)\s+(ONLY\s+)?(public\.)?\"?"
    r"(history|change_log|thread_revision|events)\b",
    re.IGNORECASE,
)


def journal_writes(source: Source) -> list[str]:
    """Only the journal writes what is recorded of changes."""
    if source.inside("app/storage/journal.py", "app/storage/journal.sql"):
        return []
    return [
        f"{source.path}:{line} {' '.join(hit[0].split())}"
        for line, sql in _sql(source)
        if (hit := _JOURNALED.search(sql))
    ]


_TRANSACTION_IDS = re.compile(
    r"\b(xid8?|xmin|xmax|txid_\w+|pg_current_xact_id\w*|pg_current_snapshot|pg_snapshot\w*|pg_visible_in_snapshot"
    r"|pg_xact_\w+|app\.epoch)\b"
)


_EPOCHS = ("0001/epochs", "0018/epochs/up", "0018/epochs/down")


def transaction_ids(source: Source) -> list[str]:
    """A transaction id means nothing in another cluster: only the epochs read one, all others take stamps."""
    if source.inside(*(f"migrations/sql/{file}.sql" for file in _EPOCHS)):
        return []
    return [f"{source.path}:{line} {hit[0]}" for line, sql in _sql(source) if (hit := _TRANSACTION_IDS.search(sql))]


def imported_tests(source: Source) -> list[str]:
    """No module imports a test module: what tests share lives in a module beside them."""
    found = {
        source.at(node, f"imports {part}")
        for node in source.nodes
        for name in imported(source, node)
        for top, *parts in [name.split(".")]
        for part in parts
        if top == "tests" and part.startswith("test_")
    }
    return sorted(found)


def shared_overrides(source: Source) -> list[str]:
    """A test module that has settings or a clock of its own says that its tests need applications of their own."""
    own = any(isinstance(node, ast.Constant) and node.value == "own" for node in source.nodes)
    return [
        source.at(node, f"overrides {node.name} without the mark usefixtures('own')")
        for node in source.nodes
        if isinstance(node, Function) and node.name in ("settings", "clock") and node.decorator_list and not own
    ]


_ROOM = ("app/domain/rendering/", "sdk/mnema_wire/blocks.py", "sdk/mnema_wire/marks.py")
_FORMAT_OF_OURS = re.compile(
    r"^(- )?\[\{\}\] |\[M\{\}|Memory updates since rev|Long-term memory \(most relevant|Conversation summary:"
    r"|Current message:|^\[?(TURN MEMORIES|USER FEEDBACK|ASSISTANT SIGNALS|PRIOR TURNS|TURNS CANDIDATES|CURRENT TURN)"
    r"|^- [+↑↔−~↺]|^- [+↑↔−~↺]?\{\}: "
)
_READERS_OF_FORMATS = (
    "app/domain/reflection/echoes.py",  # recognises lines of ours in a turn, to remove them
    "app/prompts/ctx_reconciler.py",  # names a block of its journal
    "app/cli/",  # people read it, not models
)


def model_texts(source: Source) -> list[str]:
    """Only the rendering makes what a model reads: the lines of our formats, and `ModelText`."""
    if source.inside(*_ROOM):
        return []
    made = [
        source.at(node, f"makes {name}")
        for node in source.nodes
        if isinstance(node, ast.Call)
        for name in [_last_name(node.func), *(_last_name(argument) for argument in node.args[:1])]
        if name == "ModelText" and (name == _last_name(node.func) or _last_name(node.func) in ("cast", "NewType"))
    ]
    renamed = [
        source.at(node, f"renames {alias.name}")
        for node in source.nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name == "ModelText" and alias.asname not in (None, "ModelText")
    ]
    formats = [] if source.inside(*_READERS_OF_FORMATS) or not source.path.endswith(".py") else _formats(source)
    return made + renamed + formats


def _formats(source: Source) -> list[str]:
    return [
        f"{source.path}:{line} builds {hit[0]!r}"
        for line, text in _sql(source)
        if (hit := _FORMAT_OF_OURS.search(text))
    ]


def unnamed_origins(source: Source) -> list[str]:
    """Each writer of memories names their origin, so that none gets the one of another by default."""
    return [
        source.at(node, "makes a NewMemory without its origin")
        for node in source.nodes
        if isinstance(node, ast.Call) and _last_name(node.func) == "NewMemory"
        if "origin" not in {keyword.arg for keyword in node.keywords}
    ]


def unclear_name(source: Source) -> list[str]:
    """A name says what is inside."""
    vague = {"util", "utils", "helper", "helpers", "common", "misc"}
    parts = {part for piece in Path(source.path).with_suffix("").parts for part in re.split(r"[_\-.]", piece.lower())}
    return [f"{source.path}:1 is called {name}" for name in sorted(parts & vague)]


_IGNORE = re.compile(r"#\s*type:\s*ignore")
_IGNORE_OK = re.compile(r"#\s*type:\s*ignore\[[a-z\-, ]+\]\s+# \S.{3,}")
_NOQA = re.compile(r"#\s*(ruff|flake8)?:?\s*noqa", re.IGNORECASE)
_NOQA_OK = re.compile(r"# noqa: [A-Z]+[0-9]+(, ?[A-Z]+[0-9]+)* - \S.{3,}")


def unexplained_exceptions(source: Source) -> list[str]:
    """`type: ignore` and `noqa` name the rule and give the reason."""
    found = []
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type != tokenize.COMMENT:
            continue
        for pattern, fine in ((_IGNORE, _IGNORE_OK), (_NOQA, _NOQA_OK)):
            if pattern.search(token.string) and not fine.search(token.string):
                found.append(f"{source.path}:{token.start[0]} {token.string}")
    return found


def prints(source: Source) -> list[str]:
    """Logs and consoles, never bare prints."""
    calls = (n for n in source.nodes if isinstance(n, ast.Call))
    return [source.at(n, "print(") for n in calls if isinstance(n.func, ast.Name) and n.func.id == "print"]


_CLOCKS = {("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today"), ("date", "today"), ("time", "time")}


def wall_clocks(source: Source) -> list[str]:
    """The time comes from the Clock, except to people at a terminal."""
    if source.inside("app/providers/clock.py", "app/cli/"):
        return []
    return [
        source.at(node, f"{_last_name(node.value)}.{node.attr}")
        for node in source.nodes
        if isinstance(node, ast.Attribute) and (_last_name(node.value), node.attr) in _CLOCKS
    ]


_CLOCK_MAKERS: Final = {"TrustedTime": "app/providers/clock.py", "SystemClock": "app/bootstrap/database.py"}


def unguarded_clocks(source: Source) -> list[str]:
    """A trusted time comes from the guard, and the machine's clock serves the guard alone."""
    return [
        source.at(node, f"{name}()")
        for node in source.nodes
        if isinstance(node, ast.Call) and (name := _last_name(node.func)) in _CLOCK_MAKERS
        if not source.inside(_CLOCK_MAKERS[name])
    ]


def missing_docstrings(source: Source) -> list[str]:
    """Find public definitions without a docstring. Nested functions and `__init__` modules are not public."""
    tree = ast.parse(source.text)
    found = [] if source.path.endswith("/__init__.py") or ast.get_docstring(tree) else [f"{source.path}:1 module"]
    return found + [source.at(node, name) for name, node in _public("", tree) if not ast.get_docstring(node)]


def _public(prefix: str, parent: ast.Module | ast.ClassDef) -> Iterator[tuple[str, Definition]]:
    for node in parent.body:
        if not isinstance(node, Definition) or node.name.startswith("_"):
            continue
        if {"overload", "setter", "exception_handler"} & {_last_name(d) for d in node.decorator_list}:
            continue
        yield prefix + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from _public(f"{prefix}{node.name}.", node)


def _last_name(expression: ast.expr) -> str:
    target = expression.func if isinstance(expression, ast.Call) else expression
    return target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")


def _method_calls(source: Source, name: str) -> Iterator[ast.Call]:
    for node in source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name:
            yield node


def _sql(source: Source) -> Iterator[tuple[int, str]]:
    """Yield possible SQL by line: every string of a Python file but docstrings, or a whole SQL file."""
    if not source.path.endswith(".py"):
        yield from enumerate(re.sub(r"--.*", "", source.text).splitlines(), 1)
        return
    silent: set[int] = set()
    for node in source.nodes:  # breadth first: a parent comes before its strings
        if isinstance(node, ast.Module | Definition) and ast.get_docstring(node) is not None:
            silent.add(id(node.body[0].value))  # type: ignore[attr-defined]  # a docstring is an expression
        elif isinstance(node, ast.JoinedStr):
            silent.update(id(part) for part in node.values)
            yield node.lineno, "".join(p.value if isinstance(p, ast.Constant) else "{}" for p in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node.lineno, node.value


def imported(source: Source, node: ast.AST) -> list[str]:
    """Full names of what an import statement brings in, relative ones resolved."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    package = Path(source.path).with_suffix("").parts
    base = ".".join(package[: len(package) - node.level]) if node.level else ""
    module = ".".join(part for part in (base, node.module or "") if part)
    return [f"{module}.{alias.name}" for alias in node.names]
