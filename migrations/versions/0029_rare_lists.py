"""Lists that find few memories by an index, and three indexes for them."""

from migrations.scripts import run_sql

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0029/up.sql")


def downgrade() -> None:
    run_sql("0029/down.sql")
