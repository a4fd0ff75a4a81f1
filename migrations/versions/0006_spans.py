"""The time of which a memory is so, and the states retracted and expired."""

from migrations.scripts import run_sql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0006/up.sql")


def downgrade() -> None:
    run_sql("0006/down.sql")
