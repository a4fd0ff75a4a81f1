"""The index of threads has the order of turns without a seq."""

from migrations.scripts import run_sql

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0023/up.sql")


def downgrade() -> None:
    run_sql("0023/down.sql")
