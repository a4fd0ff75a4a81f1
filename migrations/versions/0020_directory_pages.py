"""The directory in pages: servers of a hundred thousand tenants read where they are at home."""

from migrations.scripts import run_sql

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0020/up.sql")


def downgrade() -> None:
    run_sql("0020/down.sql")
