"""The rules for what one caller may hold up, as functions of a source (see `checks`)."""

import ast
from typing import Final

from tests.architecture.checks import Source

_READS: Final = {f"{start}{kind}" for start in ("aiter_", "iter_") for kind in ("raw", "bytes", "text", "lines")}
_WRAPPED: Final = ("app/providers/upstreams/reply.py", "app/providers/bounded_http.py")


def outside_streams(source: Source) -> list[str]:
    """A server reads what another server sends through OutsideStream alone."""
    if source.inside("app/cli/", *_WRAPPED):
        return []
    return [
        source.at(node, f"{node.attr} without OutsideStream")
        for node in source.nodes
        if isinstance(node, ast.Attribute) and node.attr in _READS
    ]


def unleased_keys(source: Source) -> list[str]:
    """Faces learn whose key a request has from `identify_principal`, which holds a lease on it."""
    if source.inside("app/api/deps.py", "app/api/lease.py", "app/cli/"):
        return []
    names = {"authenticate": "authenticate without a lease", "Principal": "a principal without a lease"}
    calls = [node.func for node in source.nodes if isinstance(node, ast.Call)]
    called = [(f, f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "")) for f in calls]
    return [source.at(node, names[name]) for node, name in called if name in names]
