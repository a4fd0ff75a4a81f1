"""Indexes for lists of a tenant by agent, by actor and of pinned memories."""

from migrations.scripts import run_sql

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0027/up.sql")


def downgrade() -> None:
    run_sql("0027/down.sql")
