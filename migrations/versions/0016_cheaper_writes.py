"""Cheaper writes: the comparison of a new text keeps one plan."""

from migrations.scripts import run_sql

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0016/up.sql")


def downgrade() -> None:
    run_sql("0016/down.sql")
