"""A cheaper comparison of a new text with close memories."""

from migrations.scripts import run_sql

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0030/up.sql")


def downgrade() -> None:
    run_sql("0030/down.sql")
