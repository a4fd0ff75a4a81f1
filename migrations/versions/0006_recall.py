"""memory.query in two calls, approximate search that no write pays for, and more than one embedding space at a time."""

from alembic import op

from migrations.scripts import run_functions, run_sql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("0006_recall.sql", "0006_spaces.sql")


def downgrade() -> None:
    run_sql("0006_down.sql")
    run_functions("0001_search.sql", "search_lexical")
    run_functions("0003_spaces.sql", "create_put_vectors", "add_embedding_space")
    op.execute("SELECT create_put_vectors(name) FROM embedding_spaces")
