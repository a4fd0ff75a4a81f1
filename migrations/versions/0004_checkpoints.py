"""Checkpoints: versions of the latest state, and what a checkpoint saver keeps."""

from migrations.scripts import run_sql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0004_checkpoints.sql")


def downgrade() -> None:
    run_sql("0004_down.sql")
