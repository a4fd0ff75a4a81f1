"""Webhooks: durable subscribers of the stream of changes, and their deliveries."""

from migrations.scripts import run_sql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0009/up.sql")


def downgrade() -> None:
    run_sql("0009/down.sql")
