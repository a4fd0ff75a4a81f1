"""A write starts fewer statements."""

from migrations.scripts import run_functions, run_sql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0011_journal.sql")


def downgrade() -> None:
    run_functions("0003_journal.sql", "create_journal")
    run_sql("0011_down.sql")
