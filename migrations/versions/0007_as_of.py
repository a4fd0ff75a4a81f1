"""Questions in time: memories as the history had them, and the vectors of former texts."""

from migrations.scripts import run_sql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0007/up.sql")


def downgrade() -> None:
    run_sql("0007/down.sql")
