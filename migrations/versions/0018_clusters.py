"""Clusters: a directory of tenants' homes, and a database that refuses the writes of a tenant that lives elsewhere."""

from migrations.scripts import run_sql

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0018/up.sql", "0018/epochs/up.sql", "0018/homes.sql")


def downgrade() -> None:
    run_sql("0018/epochs/down.sql", "0018/down.sql")
