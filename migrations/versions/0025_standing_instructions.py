"""The standing instructions of a user, which come with the answers that they apply to."""

from migrations.scripts import run_sql

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0025/up.sql")


def downgrade() -> None:
    run_sql("0025/down.sql")
