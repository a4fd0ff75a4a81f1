"""Moves: the last row that a tenant writes in its former home, and rules that are read after a move."""

from migrations.scripts import run_sql

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0019/up.sql")


def downgrade() -> None:
    run_sql("0019/down.sql")
