"""Tables, row-level security, journal and search of the memory core."""

from migrations.scripts import run_sql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0001_tables.sql", "0001_security.sql", "0001_search.sql", "0001_journal.sql", "0001_spaces.sql")


def downgrade() -> None:
    run_sql("0001_down.sql")
