"""${message}"""

from migrations.scripts import run_sql

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    ${upgrades if upgrades else 'run_sql("")'}


def downgrade() -> None:
    ${downgrades if downgrades else 'run_sql("")'}
