"""Chat endpoints of a tenant by the API that they speak."""

from migrations.scripts import run_sql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0005/up.sql")


def downgrade() -> None:
    run_sql("0005/down.sql")
