"""Filters that cost less."""

from migrations.scripts import run_sql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0012/up.sql")


def downgrade() -> None:
    run_sql("0012/down.sql")
