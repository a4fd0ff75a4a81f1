"""Run the SQL files of a migration."""

from pathlib import Path
from typing import Any

from alembic import op

SQL = Path(__file__).parent / "sql"


def run_sql(*names: str) -> None:
    """Run whole files of `migrations/sql`, in order, in the transaction of the migration.

    asyncpg prepares only single statements, so each file takes its simple-query path.
    """
    connection: Any = op.get_bind().connection.dbapi_connection
    for name in names:
        script = (SQL / name).read_text(encoding="utf-8")
        connection.run_async(lambda driver, script=script: driver.execute(script))
