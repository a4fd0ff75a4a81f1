"""A search that costs less, and tells whether the user has standing instructions."""

from migrations.scripts import run_sql

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0026/up.sql")


def downgrade() -> None:
    run_sql("0026/down.sql")
