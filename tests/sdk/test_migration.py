"""Migration of threads from LangGraph's savers: copies are equal, a second run and an interruption are harmless."""

import operator
from collections.abc import AsyncIterator
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import asyncpg
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from mnema_client.langgraph import MigrationError, MnemaSaver, amigrate, migrate

from tests.conftest import database_url
from tests.factories import Caller
from tests.sdk.conftest import apart


def filled() -> InMemorySaver:
    """Return a saver with two threads of two namespaces each, branches, writes of several tasks, and a stable value."""
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


def equal(source: Any, target: MnemaSaver) -> bool:
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


@pytest.mark.long
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
        """Store nothing."""

    monkeypatch.setattr(MnemaSaver, "aput_writes", forgets)
    with pytest.raises(MigrationError, match="has other writes"):
        await amigrate(source, target)
    nobodys = MnemaSaver(server, caller.key)
    with pytest.raises(MigrationError, match="names no user"):
        await amigrate(source, nobodys, user_of=lambda found: None)
    for saver in (target, nobodys):
        await saver.aclose()


class Log(TypedDict, total=False):
    """The list of what happened, in order."""

    log: Annotated[list[str], operator.add]


class Town:
    """A graph that asks twice, fails while `broken`, and runs another task beside it."""

    def __init__(self, saver: Any) -> None:
        self.broken = True
        made = StateGraph(Log)
        for name, node in (("ask", self._ask), ("fail", self._fail), ("beside", self._beside)):
            made.add_node(name, node)
            made.add_edge(START, name)
            made.add_edge(name, END)
        self._graph: Any = made.compile(checkpointer=saver)

    def run(self, thread: str, what: Any) -> Any:
        """Run one turn of a thread with a start, an answer to its question, or None to resume."""
        return self._graph.invoke(what, {"configurable": {"thread_id": thread, "user_id": "maya"}})

    def _ask(self, _state: Log) -> Log:
        return {"log": [f"{interrupt('Which way?')}, {interrupt('How far?')}"]}

    def _fail(self, _state: Log) -> Log:
        if self.broken:
            raise RuntimeError("the bridge is closed")
        return {"log": ["over the bridge"]}

    def _beside(self, _state: Log) -> Log:
        return {"log": ["beside"]}


def walked(saver: Any) -> None:
    """Run four threads: one fails, one asks, one was answered once, one is finished."""
    town = Town(saver)
    with pytest.raises(RuntimeError, match="closed"):
        town.run("failed", {"log": ["go"]})
    town.broken = False
    for thread, answers in (("asks", []), ("answered", ["left"]), ("done", ["left", "a mile"])):
        town.run(thread, {"log": ["go"]})
        for answer in answers:
            town.run(thread, Command(resume=answer))


@pytest.fixture
async def elsewhere(superuser_url: str) -> AsyncIterator[str]:
    """Create an empty database; return its URL."""
    name = f"t_{uuid4().hex}"
    connection = await asyncpg.connect(superuser_url)
    await connection.execute(f"CREATE DATABASE {name}")
    yield database_url(superuser_url, name)
    await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await connection.close()


@pytest.mark.long
async def test_threads_of_langgraphs_postgres_saver_are_equal_and_go_on(
    server: str, caller: Caller, elsewhere: str
) -> None:
    def run() -> None:
        with PostgresSaver.from_conn_string(elsewhere) as source:
            source.setup()
            walked(source)
            target = MnemaSaver(server, caller.key, user_id="maya")
            done = migrate(source, target)
            found = everything(source)
            written = sum(len(one.pending_writes or ()) for one in found.values())
            assert (done.copied, done.writes, done.threads) == (len(found), written, 4)
            assert equal(source, target)
            channels = {write[1] for one in found.values() for write in one.pending_writes or ()}
            assert channels >= {"__interrupt__", "__resume__", "__error__", "log"}, "nothing of it is missing"
            assert migrate(source, target).copied == 0
            there, here = Town(source), Town(target)
            there.broken = here.broken = False
            for thread, what in (
                ("failed", None),
                ("asks", Command(resume="right")),
                ("answered", Command(resume="far")),
            ):
                assert there.run(thread, what) == here.run(thread, what), thread
            target.close()

    await apart(run)
