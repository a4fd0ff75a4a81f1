"""Embedding spaces that are filled beside the active one, taken up and dropped."""

from migrations.scripts import run_sql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0009_spaces.sql")


def downgrade() -> None:
    run_sql("0009_down.sql")
