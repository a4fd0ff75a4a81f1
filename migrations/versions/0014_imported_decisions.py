"""Imported decisions that the database itself tells from its own."""

from migrations.scripts import run_sql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0014/up.sql")


def downgrade() -> None:
    run_sql("0014/down.sql")
