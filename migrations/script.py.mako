"""${message}"""

from migrations.scripts import run_sql

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql("${up_revision}/up.sql")


def downgrade() -> None:
    run_sql("${up_revision}/down.sql")
