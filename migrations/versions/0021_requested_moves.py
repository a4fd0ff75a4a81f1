"""Moves that the administrators of a tenant ask for, and the worker that last could carry them out."""

from migrations.scripts import run_sql

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0021/up.sql")


def downgrade() -> None:
    run_sql("0021/down.sql")
