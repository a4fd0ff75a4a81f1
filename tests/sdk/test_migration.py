"""Moving threads from LangGraph's in-memory saver: equal, again, and after an interruption."""

from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from mnema.langgraph import MigrationError, MnemaSaver, amigrate, migrate

from tests.factories import Caller
from tests.sdk.conftest import apart


def filled() -> InMemorySaver:
    """Two threads with two namespaces each, branches, writes of several tasks, a value that changes rarely."""
    source = InMemorySaver()
    for thread in ("one", "two"):
        for ns in ("", "child:1"):
            at: RunnableConfig = {"configurable": {"thread_id": thread, "checkpoint_ns": ns}}
            for step in range(4):
                made = empty_checkpoint()
                made["channel_values"] = {"rare": {"x": (1, 2)}, "often": [thread, ns, step]}
                made["channel_versions"] = {"rare": "1", "often": f"{step + 1}"}
                new = made["channel_versions"] if step == 0 else {"often": f"{step + 1}"}
                metadata: Any = {"source": "loop", "step": step, "parents": {}, "user_id": "maya", "pair": (1, "a")}
                at = source.put(at, made, metadata, new)
                source.put_writes(at, [("often", step), ("__error__", "e")], "task-z", "a-path")
                source.put_writes(at, [("often", {"deep": [step]})], "task-a", "b-path")
    return source


def everything(saver: Any) -> dict[tuple[str, str, str], CheckpointTuple]:
    named = [(found.config["configurable"], found) for found in saver.list(None)]
    return {(n["thread_id"], n["checkpoint_ns"], n["checkpoint_id"]): found for n, found in named}


def equal(source: InMemorySaver, target: MnemaSaver) -> bool:
    one, other = everything(source), everything(target)
    assert one.keys() == other.keys()
    for place, found in one.items():
        there = other[place]
        assert there.checkpoint == found.checkpoint
        assert there.metadata == found.metadata
        assert there.pending_writes == found.pending_writes
        parents = [t.parent_config and t.parent_config["configurable"]["checkpoint_id"] for t in (found, there)]
        assert parents[0] == parents[1]
    return True


@pytest.mark.parametrize("user", ["maya", None], ids=["of one user", "by the metadata"])
async def test_a_migration_is_equal_and_can_be_run_again(server: str, caller: Caller, user: str | None) -> None:
    def run() -> None:
        source, target = filled(), MnemaSaver(server, caller.key, user_id=user)
        done = migrate(source, target)
        assert (done.copied, done.writes, done.present, done.threads) == (16, 48, 0, 2)
        assert equal(source, target)
        again = migrate(source, target)
        assert (again.copied, again.present, again.threads) == (0, 16, 2)
        assert equal(source, target)
        target.close()

    await apart(run)


async def test_an_interrupted_migration_is_resumed(
    server: str, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = filled(), MnemaSaver(server, caller.key, user_id="maya")
    put_writes, calls = MnemaSaver.aput_writes, 0

    async def breaks(self: MnemaSaver, *args: Any, **named: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 10:
            raise ConnectionError("the cable")
        await put_writes(self, *args, **named)

    monkeypatch.setattr(MnemaSaver, "aput_writes", breaks)
    with pytest.raises(ConnectionError):
        await amigrate(source, target)
    done = await amigrate(source, target)
    assert (done.copied, done.present) == (12, 4)
    assert await apart(lambda: equal(source, target))
    await target.aclose()


async def test_what_does_not_come_out_as_it_went_in_is_told(
    server: str, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = filled(), MnemaSaver(server, caller.key, user_id="maya")

    async def forgets(self: MnemaSaver, *args: Any, **named: Any) -> None:
        """Stores nothing."""

    monkeypatch.setattr(MnemaSaver, "aput_writes", forgets)
    with pytest.raises(MigrationError, match="has other writes"):
        await amigrate(source, target)
    nobodys = MnemaSaver(server, caller.key)
    with pytest.raises(MigrationError, match="names no user"):
        await amigrate(source, nobodys, user_of=lambda found: None)
    for saver in (target, nobodys):
        await saver.aclose()
