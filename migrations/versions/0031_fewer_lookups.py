"""A search and an answer that cost less."""

from migrations.scripts import run_sql

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0031/up.sql")


def downgrade() -> None:
    run_sql("0031/down.sql")
