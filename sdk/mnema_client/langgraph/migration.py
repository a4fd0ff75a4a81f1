"""Moving of threads from any checkpoint saver to Mnema. Each checkpoint is compared after it was copied."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver

from mnema_client.errors import MnemaError

UserOf = Callable[[CheckpointTuple], str | None]
Write = tuple[str, str, list[tuple[str, Any]]]
"""A task, its path and its writes."""


class MigrationError(MnemaError):
    """A checkpoint that differs from the original after it was copied. Earlier copies stay."""


@dataclass
class Migrated:
    """Counts of a migration: checkpoints and writes copied, checkpoints present before, and threads."""

    copied: int = 0
    writes: int = 0
    present: int = 0
    threads: int = 0


def user_in_metadata(original: CheckpointTuple) -> str | None:
    """Return the `user_id` in a checkpoint's metadata, where LangGraph puts it if the config named one; else None."""
    user = original.metadata.get("user_id")
    return user if isinstance(user, str) else None


def migrate(
    from_saver: BaseCheckpointSaver[Any], to_saver: BaseCheckpointSaver[Any], *, user_of: UserOf = user_in_metadata
) -> Migrated:
    """Copy every checkpoint and pending write. Raise MigrationError if a copy differs from its original.

    Checkpoints that are present and equal are skipped, so it is safe to run it again, also after an interruption.

    `user_of`: returns the user of a checkpoint's thread; needed unless `to_saver` belongs to one user. Stop the graphs
    meanwhile, or run it once more.
    """
    copier = _Copier(from_saver, to_saver, user_of)
    for original in from_saver.list(None):
        step = copier.plan_step(original)
        if copier.is_present(step, to_saver.get_tuple(step.config)):
            continue
        to_saver.put(step.parent, original.checkpoint, original.metadata, step.versions)
        for task, path, writes in step.writes:
            to_saver.put_writes(step.config, writes, task, path)
        copier.verify_copy(step, to_saver.get_tuple(step.config))
    return copier.counts


async def amigrate(
    from_saver: BaseCheckpointSaver[Any], to_saver: BaseCheckpointSaver[Any], *, user_of: UserOf = user_in_metadata
) -> Migrated:
    """Copy as `migrate` does, for asynchronous savers."""
    copier = _Copier(from_saver, to_saver, user_of)
    async for original in from_saver.alist(None):
        step = copier.plan_step(original)
        if copier.is_present(step, await to_saver.aget_tuple(step.config)):
            continue
        await to_saver.aput(step.parent, original.checkpoint, original.metadata, step.versions)
        for task, path, writes in step.writes:
            await to_saver.aput_writes(step.config, writes, task, path)
        copier.verify_copy(step, await to_saver.aget_tuple(step.config))
    return copier.counts


@dataclass(frozen=True)
class _Step:
    """One checkpoint to copy: the target config, its parent, and the versions and writes to send."""

    original: CheckpointTuple
    config: RunnableConfig
    parent: RunnableConfig
    versions: ChannelVersions
    writes: list[Write]


class _Copier:
    """The part of a migration that sync and async share."""

    def __init__(self, source: BaseCheckpointSaver[Any], target: BaseCheckpointSaver[Any], user_of: UserOf) -> None:
        self._source = source
        self._serde = target.serde
        self._bound = getattr(target, "user_id", None) is not None or not hasattr(target, "user_id")
        self._user_of = user_of
        self._threads: set[tuple[Any, ...]] = set()
        self._sent: set[tuple[Any, ...]] = set()
        self.counts = Migrated()

    def plan_step(self, original: CheckpointTuple) -> _Step:
        """Return the step for a checkpoint. Raise MigrationError if nothing names its user."""
        named = original.config["configurable"]
        where = {"thread_id": named["thread_id"], "checkpoint_ns": named.get("checkpoint_ns", "")}
        if not self._bound:
            user = self._user_of(original)
            if user is None:
                raise MigrationError(f"thread {named['thread_id']!r} names no user; pass user_of", code="no_user")
            where["user_id"] = user
        if (thread := (where.get("user_id"), where["thread_id"])) not in self._threads:
            self._threads.add(thread)
            self.counts.threads += 1
        parent = original.parent_config["configurable"]["checkpoint_id"] if original.parent_config else None
        return _Step(
            original,
            {"configurable": {**where, "checkpoint_id": named["checkpoint_id"]}},
            {"configurable": {**where, "checkpoint_id": parent} if parent else where},
            self._unsent_versions(original, tuple(where.values())),
            list(self._task_writes(original)),
        )

    def _unsent_versions(self, original: CheckpointTuple, where: tuple[Any, ...]) -> ChannelVersions:
        """Return the values to send. Checkpoints share unchanged values, so each one is sent once."""
        versions = original.checkpoint["channel_versions"].items()
        unsent = {channel: version for channel, version in versions if (*where, channel, version) not in self._sent}
        self._sent.update((*where, channel, version) for channel, version in unsent.items())
        return unsent

    def _task_writes(self, original: CheckpointTuple) -> Iterator[Write]:
        """Yield writes by task, in order. Only the in-memory saver has task paths; else a number keeps the order."""
        pending = original.pending_writes or []
        for number, (task, writes) in enumerate(groupby(pending, key=lambda write: write[0])):
            path = self._task_path(original, task)
            yield task, f"{number:06}" if path is None else path, [(channel, value) for _, channel, value in writes]

    def _task_path(self, original: CheckpointTuple, task: str) -> str | None:
        if not isinstance(self._source, InMemorySaver):
            return None
        named = original.config["configurable"]
        place = named["thread_id"], named["checkpoint_ns"], named["checkpoint_id"]
        return next(path for (owner, _), (_, _, _, path) in self._source.writes[place].items() if owner == task)

    def is_present(self, step: _Step, there: CheckpointTuple | None) -> bool:
        """Tell whether an equal checkpoint is there already, and count it."""
        if there is None or self._describe_difference(step.original, there):
            return False
        self.counts.present += 1
        return True

    def verify_copy(self, step: _Step, there: CheckpointTuple | None) -> None:
        """Count the copy. Raise MigrationError if it is missing or differs."""
        wrong = "is missing" if there is None else self._describe_difference(step.original, there)
        if wrong:
            raise MigrationError(f"checkpoint {step.config['configurable']} {wrong}", code="not_equal")
        self.counts.copied += 1
        self.counts.writes += len(step.original.pending_writes or [])

    def _describe_difference(self, one: CheckpointTuple, other: CheckpointTuple) -> str:
        parents = [c["configurable"]["checkpoint_id"] if c else None for c in (one.parent_config, other.parent_config)]
        pairs = {
            "has another parent": parents,
            "differs": (one.checkpoint, other.checkpoint),
            "has other metadata": (dict(one.metadata), {k: other.metadata.get(k) for k in one.metadata}),
            "has other writes": (one.pending_writes or [], other.pending_writes or []),
        }
        return ", ".join(what for what, (a, b) in pairs.items() if not self._is_same(a, b))

    def _is_same(self, one: Any, other: Any) -> bool:
        """Compare by equality, else by serialised form: some values in a state cannot be compared."""
        with contextlib.suppress(Exception):  # a value's own comparison may raise anything
            if bool(one == other):
                return True
        return bool(self._serde.dumps_typed(one) == self._serde.dumps_typed(other))
