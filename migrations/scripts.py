"""Runs the versioned SQL files of a migration."""

import re
from pathlib import Path
from typing import Any

from alembic import op

SQL = Path(__file__).parent / "sql"


def run_sql(*names: str) -> None:
    """Run whole SQL scripts, in order, in the migration's transaction.

    The driver prepares single statements only, so the script goes through its simple-query path.
    """
    for name in names:
        _run((SQL / name).read_text(encoding="utf-8"))


def run_functions(file: str, *names: str) -> None:
    """Make functions again as an earlier script made them."""
    script = (SQL / file).read_text(encoding="utf-8")
    for name in names:
        [found] = re.findall(
            rf"^CREATE (?:OR REPLACE )?(FUNCTION {name}\(.*?^END \$\w*\$;$)", script, re.DOTALL | re.MULTILINE
        )
        _run(f"CREATE OR REPLACE {found}")


def _run(script: str) -> None:
    connection: Any = op.get_bind().connection.dbapi_connection
    connection.run_async(lambda driver: driver.execute(script))
