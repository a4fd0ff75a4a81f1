"""Checks that only documented names of third parties are used."""

import ast

from tests.architecture.checks import Source, imported

SDK = ("mnema_cli", "mnema_client", "mnema_wire")
OWN = frozenset({"app", "bench", "console", "migrations", "tests", "workers", *SDK})
"""Packages of this repository, whose undocumented names each may use."""

NAMED_TUPLE = frozenset({"_asdict", "_field_defaults", "_fields", "_make", "_replace"})
"""Documented methods with an underscore, which keeps them apart from the fields."""

UNDOCUMENTED = (
    "asyncpg.connect_utils",
    "asyncpg.pool",
    "asyncpg.protocol",
    "fastapi.dependencies",
    "fastapi.routing",
    "fastapi.utils",
    "starlette.routing.compile_path",
    "starlette.routing.get_name",
    "starlette.routing.replace_params",
    "starlette.routing.request_response",
    "uvicorn.lifespan",
    "uvicorn.loops",
    "uvicorn.protocols",
    "uvicorn.server",
)
"""Modules and names without an underscore that no documentation names."""

DOCUMENTED = frozenset({"asyncpg.pool.Pool", "fastapi.routing.APIRoute", "fastapi.routing.APIRouter"})
"""Names in these modules that it does name."""


def undocumented_imports(source: Source) -> list[str]:
    """Find imports of a third party's private or undocumented names."""
    return [
        source.at(node, f"imports {name}")
        for node in source.nodes
        for name in imported(source, node)
        if name.split(".")[0] not in OWN and (_has_private_part(name) or _is_undocumented(name))
    ]


def private_imports(source: Source) -> list[str]:
    """Find imports of a private name of another module of this repository."""
    return [
        source.at(node, f"imports {alias.name} of {node.module}")
        for node in source.nodes
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in OWN
        for alias in node.names
        if _is_private(alias.name)
    ]


def private_attributes(source: Source) -> list[str]:
    """Find attributes with one leading underscore that this file does not define, and `__new__` of other types.

    Attributes of `self` and `cls` are taken for the file's own.
    """
    own = NAMED_TUPLE | {name for node in source.nodes for name in _defined(node)}
    return [
        source.at(node, ast.unparse(node))
        for node in source.nodes
        if _name_of(node) not in own
        and (
            (isinstance(node, ast.Attribute) and not _is_own(node.value) and _is_hidden(node.attr))
            or (isinstance(node, ast.Call) and _is_hidden(_name_of(node)))
        )
    ]


def _has_private_part(name: str) -> bool:
    return any(_is_private(part) for part in name.split("."))


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _is_hidden(name: str) -> bool:
    return _is_private(name) or name == "__new__"


def _is_undocumented(name: str) -> bool:
    return name not in DOCUMENTED and any(name == refused or name.startswith(f"{refused}.") for refused in UNDOCUMENTED)


def _is_own(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "super"
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def _name_of(node: ast.AST) -> str:
    """Return the attribute's name, written out or as the argument of `getattr`; else nothing."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "setattr"):
        name = node.args[1] if len(node.args) > 1 else None
        return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else ""
    return ""


def _defined(node: ast.AST) -> list[str]:
    """Return the names that a class gives its attributes in its body, or a method gives to `self`."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_own(node.value):
        return [node.attr]
    if not isinstance(node, ast.ClassDef):
        return []
    names = []
    for part in node.body:
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            names.append(part.name)
        elif isinstance(part, ast.AnnAssign | ast.Assign):
            targets = [part.target] if isinstance(part, ast.AnnAssign) else part.targets
            names += [target.id for target in targets if isinstance(target, ast.Name)]
    return names
