"""What applies by itself is counted by the database too, and a page of checkpoints is bounded by all it holds."""

from migrations.scripts import run_functions, run_sql

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0015_bounds.sql")


def downgrade() -> None:
    run_functions("0004_checkpoints.sql", "list_checkpoints")
    run_functions("0008_consent.sql", "decide_once")
    run_sql("0015_down.sql")
