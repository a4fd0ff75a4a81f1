"""Questions in time: filters that cost less, and words of before."""

from migrations.scripts import run_sql

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0013/up.sql")


def downgrade() -> None:
    run_sql("0013/down.sql")
