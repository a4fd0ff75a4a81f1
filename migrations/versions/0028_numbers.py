"""An index of the numbers in metadata, which serves filters with `gt`, `gte`, `lt` and `lte`."""

from migrations.scripts import run_sql

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0028/up.sql")


def downgrade() -> None:
    run_sql("0028/down.sql")
