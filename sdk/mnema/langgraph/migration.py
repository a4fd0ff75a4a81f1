"""Moving threads from any checkpoint saver to Mnema, checkpoint by checkpoint, each compared once it is there."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver

from mnema.errors import MnemaError

UserOf = Callable[[CheckpointTuple], str | None]
Write = tuple[str, str, list[tuple[str, Any]]]
"""A task, its path, and what it wrote."""


class MigrationError(MnemaError):
    """A checkpoint did not come out as it went in; what was copied before it stays."""


@dataclass
class Migrated:
    """How many checkpoints and writes were copied, how many checkpoints were there already, and of how many threads."""

    copied: int = 0
    writes: int = 0
    present: int = 0
    threads: int = 0


def user_in_metadata(found: CheckpointTuple) -> str | None:
    """Whose a thread is if its configs named a `user_id`: LangGraph keeps that in the metadata."""
    user = found.metadata.get("user_id")
    return user if isinstance(user, str) else None


def migrate(
    from_saver: BaseCheckpointSaver[Any], to_saver: BaseCheckpointSaver[Any], *, user_of: UserOf = user_in_metadata
) -> Migrated:
    """Copy every checkpoint and pending write. What is there and equal is left alone, so it can be run again, after an
    interruption too; each that was copied is read back and compared: MigrationError if it differs.

    `user_of`: whose a thread is, where `to_saver` is not of one user. Stop the graphs meanwhile, or run it once more.
    """
    copier = _Copier(from_saver, to_saver, user_of)
    for found in from_saver.list(None):
        step = copier.plan_step(found)
        if copier.is_present(step, to_saver.get_tuple(step.config)):
            continue
        to_saver.put(step.parent, found.checkpoint, found.metadata, step.versions)
        for task, path, writes in step.writes:
            to_saver.put_writes(step.config, writes, task, path)
        copier.verify_copy(step, to_saver.get_tuple(step.config))
    return copier.done


async def amigrate(
    from_saver: BaseCheckpointSaver[Any], to_saver: BaseCheckpointSaver[Any], *, user_of: UserOf = user_in_metadata
) -> Migrated:
    """As `migrate`, for savers that are async."""
    copier = _Copier(from_saver, to_saver, user_of)
    async for found in from_saver.alist(None):
        step = copier.plan_step(found)
        if copier.is_present(step, await to_saver.aget_tuple(step.config)):
            continue
        await to_saver.aput(step.parent, found.checkpoint, found.metadata, step.versions)
        for task, path, writes in step.writes:
            await to_saver.aput_writes(step.config, writes, task, path)
        copier.verify_copy(step, await to_saver.aget_tuple(step.config))
    return copier.done


@dataclass(frozen=True)
class _Step:
    """One checkpoint: where it goes, as whose child, and what of it must travel."""

    found: CheckpointTuple
    config: RunnableConfig
    parent: RunnableConfig
    versions: ChannelVersions
    writes: list[Write]


class _Copier:
    """What both ways of copying think."""

    def __init__(self, source: BaseCheckpointSaver[Any], target: BaseCheckpointSaver[Any], user_of: UserOf) -> None:
        self._source = source
        self._serde = target.serde
        self._bound = getattr(target, "user_id", None) is not None or not hasattr(target, "user_id")
        self._user_of = user_of
        self._threads: set[tuple[Any, ...]] = set()
        self._sent: set[tuple[Any, ...]] = set()
        self.done = Migrated()

    def plan_step(self, found: CheckpointTuple) -> _Step:
        """What to do for a checkpoint; raises MigrationError when nobody says whose it is."""
        named = found.config["configurable"]
        where = {"thread_id": named["thread_id"], "checkpoint_ns": named.get("checkpoint_ns", "")}
        if not self._bound:
            user = self._user_of(found)
            if user is None:
                raise MigrationError(f"thread {named['thread_id']!r} names no user: give user_of", code="no_user")
            where["user_id"] = user
        if (thread := (where.get("user_id"), where["thread_id"])) not in self._threads:
            self._threads.add(thread)
            self.done.threads += 1
        parent = found.parent_config["configurable"]["checkpoint_id"] if found.parent_config else None
        return _Step(
            found,
            {"configurable": {**where, "checkpoint_id": named["checkpoint_id"]}},
            {"configurable": {**where, "checkpoint_id": parent} if parent else where},
            self._unsent_versions(found, tuple(where.values())),
            list(self._task_writes(found)),
        )

    def _unsent_versions(self, found: CheckpointTuple, where: tuple[Any, ...]) -> ChannelVersions:
        """Checkpoints share the values that did not change between them: each travels once."""
        held = found.checkpoint["channel_versions"].items()
        fresh = {channel: version for channel, version in held if (*where, channel, version) not in self._sent}
        self._sent.update((*where, channel, version) for channel, version in fresh.items())
        return fresh

    def _task_writes(self, found: CheckpointTuple) -> Iterator[Write]:
        """By task, in their order. Only the in-memory saver tells paths; of another a number keeps the order."""
        pending = found.pending_writes or []
        for number, (task, writes) in enumerate(groupby(pending, key=lambda write: write[0])):
            path = self._task_path(found, task)
            yield task, f"{number:06}" if path is None else path, [(channel, value) for _, channel, value in writes]

    def _task_path(self, found: CheckpointTuple, task: str) -> str | None:
        if not isinstance(self._source, InMemorySaver):
            return None
        named = found.config["configurable"]
        place = named["thread_id"], named["checkpoint_ns"], named["checkpoint_id"]
        return next(path for (owner, _), (_, _, _, path) in self._source.writes[place].items() if owner == task)

    def is_present(self, step: _Step, there: CheckpointTuple | None) -> bool:
        """Whether it is there already."""
        if there is None or self._describe_difference(step.found, there):
            return False
        self.done.present += 1
        return True

    def verify_copy(self, step: _Step, there: CheckpointTuple | None) -> None:
        """Count it; raises MigrationError if it is not what was copied."""
        wrong = "is missing" if there is None else self._describe_difference(step.found, there)
        if wrong:
            raise MigrationError(f"checkpoint {step.config['configurable']} {wrong}", code="not_equal")
        self.done.copied += 1
        self.done.writes += len(step.found.pending_writes or [])

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
        """Equal, or written alike: not everything in a state can be compared."""
        with contextlib.suppress(Exception):  # whatever a value's own comparison raises
            if bool(one == other):
                return True
        return bool(self._serde.dumps_typed(one) == self._serde.dumps_typed(other))
