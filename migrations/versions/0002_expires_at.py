"""The moment at which a memory expires."""

from migrations.scripts import run_sql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0002/up.sql")


def downgrade() -> None:
    run_sql("0002/down.sql")
