"""Jobs, and a journal that takes the changes of a call table by table."""

from migrations.scripts import run_sql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0002_drop_journal.sql", "0002_jobs.sql", "0002_journal.sql", "0002_spaces.sql")


def downgrade() -> None:
    run_sql("0002_down.sql", "0001_journal.sql")
