"""The parts of a query in the server, told by the functions that stand on the stack."""

from typing import Final

FILES: Final = (
    ("log", ("/structlog/", "/app/config/logs.py")),
    ("rows to objects", ("/app/storage/rows.py",)),
    ("driver", ("/asyncpg/", "/pgvector/", "/app/storage/engine.py", "/app/storage/uow.py")),
    ("JSON", ("/json/encoder.py", "/json/decoder.py")),
    ("HTTP", ("/app/api/transport/exchange.py", "/app/api/transport/connections.py")),
)
"""Files whose code is a part, wherever it is called."""
FUNCTIONS: Final = {
    "_candidates_from_row": "rows to objects",
    "load_answer": "rows to objects",
    "flush_pending": "receipts and access",
    "leave_receipt": "receipts and access",
    "record_access": "receipts and access",
    "_embed_query": "model",
    "score_candidates": "ranking",
    "set_aside_repeats": "ranking",
    "choose_ranked": "ranking",
    "arrange_answer": "rules, duplicates, supersession",
    "_add_items": "rendering",
    "add_ranked": "rendering",
    "answer_query": "use-case",
    "answer_body": "JSON",
    "respond": "HTTP",
    "run_application": "HTTP",
}
"""Functions whose calls are a part, the calls inside another part apart."""


def part_of(file: str, function: str) -> str | None:
    """Return the part of a frame; None if its caller decides."""
    if (known := FUNCTIONS.get(function)) is not None and "/app/" in file:
        return known
    return next((name for name, marks in FILES if any(mark in file for mark in marks)), None)
