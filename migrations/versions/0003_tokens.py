"""The words of a text beside its vector, and a journal with less to start for each write."""

from migrations.scripts import run_sql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0003_journal.sql", "0003_spaces.sql")


def downgrade() -> None:
    run_sql("0003_down.sql", "0002_journal.sql", "0002_spaces.sql")
