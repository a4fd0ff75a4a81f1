"""The catalogue of personal data: each column of each tenant table, and what an erasure does with it.

A column is personal if it can name a person or hold their words, also as a hash or a vector. A test compares the
catalogue with the database, erases a person who has a value in every personal column, and looks for remains.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Fate(StrEnum):
    """The fate of a personal column when the person is erased."""

    deleted = "deleted"
    """The row is deleted."""
    cleared = "cleared"
    """The row stays, the value goes."""
    renamed = "renamed"
    """The row stays, a random id replaces the value."""
    expires = "expires"
    """The row stays until its time is over. It is reached by nobody but the caller who wrote it."""


SWEEP: Final = "sweep"
"""The eraser of tables whose rows have a `user_id` and need nothing but to be deleted."""


@dataclass(frozen=True, slots=True)
class TableData:
    """The columns of a table.

    `personal`: the fate of each personal column, `plain`: the others. `eraser`: what deletes a person's rows: SWEEP,
    a function of the database, or the table whose foreign key cascades to them; None if no row is deleted.
    `counted`: the table's name in the receipt of an erasure. `reason`: why the table holds nothing of a person, or is
    not exported.
    """

    plain: tuple[str, ...]
    personal: Mapping[str, Fate] = field(default_factory=dict)
    eraser: str | None = None
    counted: str = ""
    reason: str = ""

    @property
    def columns(self) -> list[str]:
        """All columns, each as often as it is declared."""
        return [*self.plain, *self.personal]

    @property
    def names_owner(self) -> bool:
        """True if `user_id` names the owner of a row."""
        return self.personal.get("user_id") is Fate.deleted


def _owned(
    eraser: str, personal: str, plain: str, *, stays: Mapping[str, Fate] = MappingProxyType({}), **more: str
) -> TableData:
    """Describe a table whose personal rows are deleted; `stays`: columns that rows of nobody or of several have too."""
    fates: dict[str, Fate] = dict.fromkeys(personal.split(), Fate.deleted)
    fates.update(stays)
    return TableData(tuple(plain.split()), fates, eraser, **more)


def _kept(plain: str, reason: str = "", **personal: Fate) -> TableData:
    """Describe a table whose rows stay."""
    return TableData(tuple(plain.split()), personal, reason=reason)


TABLES: Final[Mapping[str, TableData]] = {
    "api_keys": _kept(
        "tenant_id id name prefix key_hash agents scopes created_at expires_at revoked_at", "programs, not people"
    ),
    "blob_contents": _owned("blobs", "content", "tenant_id uri"),
    "blobs": _owned("remove_blobs", "user_id", "tenant_id uri created_at"),
    "change_log": _kept(
        "tenant_id id rev memory_id event category_before category_after ts user_pk type state_before",
        thread_id=Fate.renamed,
        meta=Fate.cleared,
    ),
    "chat_upstreams": _kept("tenant_id dialect base_url api_key updated_at", "the organisation's own endpoint"),
    "checkpoint_lineage": _owned(
        "supervisor_checkpoints",
        "ns checkpoint_id parent_id type data metadata versions run_id",
        "tenant_id thread_pk created_at",
    ),
    "checkpoint_values": _owned("supervisor_checkpoints", "ns channel version type data", "tenant_id thread_pk"),
    "checkpoint_writes": _owned(
        "supervisor_checkpoints", "ns checkpoint_id task_id task_path channel type data", "tenant_id thread_pk idx"
    ),
    "chunks": _owned("memories", "heading gap", "tenant_id memory_id file_id turn_id ordinal start_at end_at page"),
    "consolidation_pairs": _owned("users", "user_pk", "tenant_id low high score same checked_at"),
    "context_patches": _owned(
        "erase_consent",
        "user_id value value_key signals actor thread_id decided_by",
        "tenant_id id field sensitive state created_at expires_at decided_at way decided_stamp keys answer_id",
    ),
    "context_questions": _owned(
        "context_patches", "thread_id user_id question", "tenant_id patch_id rev asked_at turn_id key_id"
    ),
    "conv_messages": _owned(
        "erase_artifacts",
        "user_id conversation_id turn_id track_id place text tags",
        "tenant_id id kind hosted_uri version reconciled_version made_at created_at updated_at",
    ),
    "delta_cursors": _owned(
        SWEEP, "user_id", "tenant_id agent rev updated_at key_id", stays={"thread_id": Fate.renamed}
    ),
    "events": _owned(
        "erase_user",
        "user_id",
        "tenant_id id node op status memory_id category sim ts",
        stays={"thread_id": Fate.renamed},
    ),
    "facts": _owned(
        "erase_user",
        "user_id thread_id topic_key value value_key source_message_id",
        "tenant_id id kind rank category list_length listed_at created_at updated_at doubted_at removed_at",
    ),
    "files": _owned(
        "erase_sources",
        "user_id path stamp hash detail",
        "tenant_id id source_id filetype size modified_at settings state reason encoding characters chunk_count"
        " hosted_uri indexed_at index_job_id created_at updated_at",
    ),
    "history": _kept("tenant_id id memory_id event old_ref new_ref ts stamp", actor=Fate.cleared, meta=Fate.cleared),
    "idempotency_keys": _owned(
        "erase_user",
        "user_id body_hash",
        "tenant_id key_id route created_at",
        stays={"key": Fate.expires, "response": Fate.cleared},
    ),
    "index_jobs": _owned(
        "erase_sources",
        "user_id error",
        "tenant_id id source_id job_id kind cause state files_total files_done added changed unchanged removed rejected"
        " chunks_added chunks_kept chunks_removed bytes_read created_at started_at ended_at updated_at",
    ),
    "job_pauses": _kept("tenant_id kind paused_at", "kinds of work"),
    "jobs": _owned(
        SWEEP,
        "user_id payload payload_hash slot last_error report",
        "tenant_id id kind state attempts next_run published_at lease_until worker created_at updated_at",
    ),
    "llm_budget": _kept("tenant_id day tokens", "counts of a day"),
    "llm_calls": _kept(
        "tenant_id id ts prompt version model attempt input_tokens output_tokens duration_ms items items_ok"
        " first_pass_ok status error",
        "counts; nothing anybody said, nor who",
    ),
    "memories": _owned(
        "erase_user",
        "user_pk user_id thread_id agent_id run_id actor_id role text steps_text text_hash tags source metadata tsv"
        " fact_topic",
        "tenant_id id seq type category importance pinned state superseded_by purge_at version created_at updated_at"
        " expires_at language valid_from valid_to origin stored_at",
    ),
    "moves": _kept(
        "tenant_id id source target step error details aborted_at erasures_owed started_at changed_at ended_at",
        "work of operators",
    ),
    "memory_access": _owned("memories", "", "tenant_id memory_id last_accessed hits"),
    "memory_batches": _owned(
        "erase_user",
        "user_id",
        "tenant_id id action undoes user_pks categories matched changed skipped actor created_at stamp",
        stays={"filters": Fate.cleared, "changes": Fate.cleared},
    ),
    "memory_counts": _kept("tenant_id category agent_key id memories changed_at", "numbers; hashes of agents' names"),
    "past_": _owned(
        "memories",
        "user_pk embedding tokens tsv",
        "tenant_id memory_id since until category today state expires_at",
        reason="made of history; one table an embedding space",
    ),
    "history_fills": _kept("tenant_id space began after_id", "the progress of a job"),
    "placements": _kept("tenant_id cluster epoch region changed_at", "the tenant's cluster"),
    "receipt_items": _owned(
        "erase_receipts", "", "tenant_id receipt_id place part memory_id category version relevance bullet"
    ),
    "receipts": _owned(
        "erase_receipts",
        "user_id",
        "tenant_id id ts via agent key_id header_from header_to tokens relevance degraded as_of valid_at",
        stays={"thread_id": Fate.renamed},
    ),
    "reflections": _owned("users", "user_id thread_id", "tenant_id kind rev at tries"),
    "relations": _owned("erase_user", "", "tenant_id id from_id to_id relation_type strength created_at"),
    "residences": _kept("tenant_id state epoch number changed_at", "the tenant's cluster"),
    "revocations": _kept("tenant_id key_id revoked_at", "programs, not people"),
    "sources": _owned(
        "erase_sources",
        "user_id name root_path agent_id include exclude",
        "tenant_id id kind category watch removed_at created_at updated_at",
    ),
    "store_items": _owned(
        "erase_items",
        "path key value indexed user_id",
        "tenant_id id size ttl expires_at created_at updated_at",
    ),
    "store_vectors": _owned("store_items", "embedding", "tenant_id item_id space part", reason="made of store_items"),
    "supervisor_checkpoints": _owned(
        SWEEP,
        "user_id thread_id checkpoint_data checkpoint_binary head",
        "tenant_id id created_at updated_at kind version",
        counted="checkpoints",
    ),
    "swept_blobs": _kept("tenant_id uri swept_at deleted", "random addresses"),
    "tenant_configs": _kept(
        "tenant_id version document actor note created_at stamp", "names of agents and categories, and settings"
    ),
    "tenant_epochs": _kept("tenant_id epoch up_to", "the tenant's former clusters"),
    "tenants": _kept("id name created_at", "the organisation"),
    "thread_revision": _kept(
        "tenant_id rev pruned erased", "a counter; what raised it is in change_log", thread_id=Fate.renamed
    ),
    "tombstones": _kept("tenant_id hash created_at", "keyed hashes of what was erased, whose nobody can tell"),
    "webhook_deliveries": _owned(
        SWEEP,
        "user_id",
        "tenant_id id webhook_id record memory_id event category type version happened_at state attempts next_attempt"
        " status error created_at ended_at",
    ),
    "webhooks": _owned(
        SWEEP,
        "user_id",
        "tenant_id id url events categories conditions with_memory secret former_secret former_until state reason stamp"
        " record due_at created_at updated_at",
    ),
    "usage_days": _owned(SWEEP, "user_id", "tenant_id day queries tokens"),
    "user_context": _owned("erase_consent", "user_id item value", "tenant_id field patch_id updated_at"),
    "users": _owned("erase_user", "user_id user_pk", "tenant_id created_at"),
    "vec_": _owned(
        "memories",
        "user_pk embedding tokens",
        "tenant_id memory_id type category state thread_key indexed",
        reason="made of memories; one table an embedding space",
    ),
}
"""The tables by name; `vec_` and `past_` stand for the tables of all embedding spaces."""

SWEPT: Final = {name: data.counted or name for name, data in TABLES.items() if data.eraser == SWEEP}
"""The tables that an erasure sweeps, with their names in its receipt."""
