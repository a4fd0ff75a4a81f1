"""An erasure takes items that name a person and replaces thread ids; key hashes are unique; the secret is known."""

from migrations.scripts import run_sql

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0019_people.sql")


def downgrade() -> None:
    run_sql("0019_down.sql")
