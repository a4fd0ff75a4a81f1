"""What is known of a user with their consent, and what is proposed to be."""

from migrations.scripts import run_sql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0008_consent.sql")


def downgrade() -> None:
    run_sql("0008_down.sql")
