"""A retry key's record says whose it is, and what is kept for a time is dropped in batches."""

from migrations.scripts import run_functions, run_sql

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0013_people.sql")


def downgrade() -> None:
    run_functions("0002_journal.sql", "claim_keys", "erase_user", "expire_records")
    run_sql("0013_down.sql")
