"""Reads that do not grow with the tenant: indexes of the orders of lists, and kept counts."""

from migrations.scripts import run_sql

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0017/up.sql")


def downgrade() -> None:
    run_sql("0017/down.sql")
