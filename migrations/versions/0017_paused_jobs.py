"""Which kinds of jobs are paused, of all tenants together."""

from migrations.scripts import run_sql

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0017_paused_jobs.sql")


def downgrade() -> None:
    run_sql("0017_down.sql")
