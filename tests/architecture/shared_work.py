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
