"""An erasure takes items that name a person and replaces thread ids; key hashes are unique; the secret is known."""

from migrations.scripts import run_sql

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0020_people.sql")


def downgrade() -> None:
    run_sql("0020_down.sql")
