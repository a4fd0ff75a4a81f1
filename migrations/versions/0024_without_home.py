"""Receipts of queries by MCP, and tenants that no cluster takes for its own."""

from migrations.scripts import run_sql

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0024/up.sql")


def downgrade() -> None:
    run_sql("0024/down.sql")
