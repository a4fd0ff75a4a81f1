"""A decision made in a chat names its turn, and evidence counts while its text says the value."""

from migrations.scripts import run_functions, run_sql

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0016_consent.sql")


def downgrade() -> None:
    run_sql("0016_down.sql")
    run_functions("0015_bounds.sql", "decide_once")
