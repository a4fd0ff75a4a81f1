"""A stored text never makes a filter fail, no relation outlives its memories, nonsense is asked for again."""

from migrations.scripts import run_functions, run_sql

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0018_guards.sql")


def downgrade() -> None:
    run_functions("0005_store.sql", "store_compares")
    run_functions("0014_journal.sql", "add_edges", "create_journal")
    run_sql("0018_down.sql")
