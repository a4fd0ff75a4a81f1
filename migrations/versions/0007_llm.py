"""Calls of a chat model, and the tokens that each tenant may spend in a day."""

from migrations.scripts import run_sql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0007_llm.sql")


def downgrade() -> None:
    run_sql("0007_down.sql")
