"""How far an agent was shown a thread is known of each user it asked about; what has no vector yet is found."""

from migrations.scripts import run_functions, run_sql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0012_cursors.sql", "0012_recall.sql")


def downgrade() -> None:
    run_functions("0006_recall.sql", "create_recall")
    run_sql("0012_down.sql")
