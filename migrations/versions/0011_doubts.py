"""Doubts of facts in their history."""

from migrations.scripts import run_sql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0011/up.sql")


def downgrade() -> None:
    run_sql("0011/down.sql")
