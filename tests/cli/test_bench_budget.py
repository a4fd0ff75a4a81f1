"""The budget of a query: its parts are functions that the server has, and a tiny run finds each of them."""

import re
from pathlib import Path

from bench.budget.query import measure_parts
from bench.budget.query_parts import FUNCTIONS, part_of
from bench.budget.table import Part, render_table
from tests.effort import deep_only

APP = Path(__file__).parents[2] / "app"


def test_the_server_has_the_functions_that_are_parts() -> None:
    defined = {name for file in APP.rglob("*.py") for name in re.findall(r"def (\w+)\(", file.read_text("utf-8"))}
    assert FUNCTIONS.keys() <= defined
    assert part_of("/x/app/domain/recall/scoring.py", "score_candidates") == "ranking"
    assert part_of("/x/asyncpg/connection.py", "fetch") == "driver"
    assert part_of("/x/app/domain/recall/scoring.py", "_fill_gaps") is None


def test_a_table_has_shares_and_floors() -> None:
    lines = render_table("A query", [Part("model", 3.0, 1.5, "alone"), Part("HTTP", 1.0)]).splitlines()
    assert lines[0] == "A query: 4.00 ms of CPU"
    assert lines[-2:] == ["| model | 3.00 | 75% | 1.50: alone |", "| HTTP | 1.00 | 25% |  |"]


@deep_only
def test_a_tiny_run_finds_the_parts_of_a_query() -> None:
    parts = {part.name: part for part in measure_parts(memories=60, users=2)}
    assert {"model", "server: ranking", "server: HTTP", "PostgreSQL: read_answer"} <= parts.keys()
    assert all(part.cpu_ms > 0 for name, part in parts.items() if name.startswith("server: "))
