"""The origin of a memory: how it came to be."""

from migrations.scripts import run_sql

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0022/up.sql")


def downgrade() -> None:
    run_sql("0022/down.sql")
