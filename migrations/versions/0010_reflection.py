"""How far a chat model has read each conversation, and what was made of it when."""

from migrations.scripts import run_sql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0010_reflection.sql")


def downgrade() -> None:
    run_sql("0010_down.sql")
