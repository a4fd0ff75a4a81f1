"""Import of consent that was decided elsewhere."""

from migrations.scripts import run_sql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0010/up.sql")


def downgrade() -> None:
    run_sql("0010/down.sql")
