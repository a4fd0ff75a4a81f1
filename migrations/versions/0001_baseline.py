"""The schema of the first release."""

from migrations.scripts import run_sql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

CAPABILITIES = (
    "kernel",
    "epochs",
    "tenancy",
    "memory",
    "memory_write",
    "memory_batches",
    "facts",
    "recall",
    "recall_words",
    "memory_list",
    "delta",
    "reflection",
    "consolidation",
    "consent",
    "retention",
    "agent_state_checkpoints",
    "agent_state_store",
    "jobs",
    "operations",
    "chat",
    "turn_memory",
    "sources",
    "recall_chunks",
    "receipts",
    "planning",
    "security",
    "partitions",
    "first_space",
)


def upgrade() -> None:
    run_sql(*(f"0001/{capability}.sql" for capability in CAPABILITIES))


def downgrade() -> None:
    run_sql("0001/down.sql")
