"""One filter language: a tree of comparisons in every reader of memories."""

from migrations.scripts import run_sql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0008/up.sql")


def downgrade() -> None:
    run_sql("0008/down.sql")
