"""A new text renews its memory's relations, and the delta tells the text that is stored."""

from migrations.scripts import run_functions, run_sql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0014_journal.sql")


def downgrade() -> None:
    run_functions("0002_journal.sql", "add_edges")
    run_functions("0011_journal.sql", "create_journal")
    run_sql("0014_down.sql")
