"""The parts of a write in the server, told by the functions that stand on the stack."""

from typing import Final

from bench.budget.query_parts import FILES

FUNCTIONS: Final = {
    "check_draft": "rules: texts",
    "_decide_merge": "rules: same fact",
    "_find_closed": "rules: closed spans",
    "embed_drafts": "call of the model",
    "find_neighbours": "rows to objects",
    "_recorded_changes": "rows to objects",
    "change_batch": "changes to rows",
    "_change_tombstones": "tombstones",
    "flush_pending": "events and access",
    "record_access": "events and access",
    "write_memory": "use-case",
    "remember": "route",
    "respond": "route",
    "identify_principal": "HTTP in: admission",
    "_admit_request": "HTTP in: admission",
    "run_application": "HTTP in: middleware",
}
"""Functions whose calls are a part, the calls inside another part apart."""


def part_of(file: str, function: str) -> str | None:
    """Return the part of a frame; None if its caller decides."""
    if (known := FUNCTIONS.get(function)) is not None and "/app/" in file:
        return known
    return next((name for name, marks in FILES if any(mark in file for mark in marks)), None)
