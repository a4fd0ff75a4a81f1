"""Words stemmed by the language of their text."""

from migrations.scripts import run_sql

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0015/up.sql")


def downgrade() -> None:
    run_sql("0015/down.sql")
