"""The saver over HTTP: sync methods, users, tenants, concurrent writers, large states, a graph killed and resumed."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from mnema_client import InvalidRequest, NotAllowed
from mnema_client.langgraph import MnemaSaver

from app.bootstrap import Application
from tests.factories import Caller, make_caller

Config = RunnableConfig


def config(thread: str = "run", ns: str = "", **more: str) -> Config:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, **more}}


def made(version: str = "1", **values: Any) -> Checkpoint:
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = values
    checkpoint["channel_versions"] = dict.fromkeys(values, version)
    return checkpoint


def put(saver: MnemaSaver, at: Config, checkpoint: Checkpoint, **metadata: Any) -> Config:
    known = {"source": "loop", "step": 1, "parents": {}, **metadata}
    return saver.put(at, checkpoint, known, checkpoint["channel_versions"])  # type: ignore[arg-type]


async def test_the_sync_side_does_what_the_async_side_does(server: str, caller: Caller) -> None:
    def all_of_it() -> None:
        saver = MnemaSaver(server, caller.key, user_id="maya")
        first = put(saver, config(), made(a=1, b=[1, 2]), run_id="r1", tags=["x"])
        saver.put_writes(first, [("a", 2), ("b", [3])], "task-1", "path")
        second = put(saver, first, made("2", a={"é": b"\x00"}), run_id="r2")
        third = put(saver, config(ns="sub"), made(c=None), run_id="r2")
        found = saver.get_tuple(first)
        assert found is not None
        assert found.checkpoint["channel_values"] == {"a": 1, "b": [1, 2]}
        assert (found.metadata["run_id"], found.metadata["tags"]) == ("r1", ["x"])  # type: ignore[typeddict-item]
        assert found.pending_writes == [("task-1", "a", 2), ("task-1", "b", [3])]
        newest = saver.get_tuple(config())
        assert newest is not None
        assert (newest.config, newest.parent_config) == (second, first)
        assert newest.checkpoint["channel_values"] == {"a": {"é": b"\x00"}}
        assert saver.get_tuple(config("other")) is None
        ids = [second["configurable"]["checkpoint_id"], first["configurable"]["checkpoint_id"]]
        assert [t.checkpoint["id"] for t in saver.list(config())] == ids
        assert [t.checkpoint["id"] for t in saver.list(config(), before=second)] == ids[1:]
        assert [t.checkpoint["id"] for t in saver.list(config(), limit=1)] == ids[:1]
        assert [t.checkpoint["id"] for t in saver.list(config(), filter={"run_id": "r1"})] == ids[1:]
        assert len(list(saver.list(None))) == 3
        saver.copy_thread("run", "copy")
        copied = saver.get_tuple(config("copy"))
        assert copied is not None
        assert copied.checkpoint == newest.checkpoint
        saver.prune(["copy"])
        assert [t.parent_config for t in saver.list(config("copy"))] == [None]
        saver.delete_for_runs(["r2"])
        assert (saver.get_tuple(second), saver.get_tuple(third)) == (None, None)
        assert saver.get_tuple(first) is not None
        saver.delete_thread("run")
        saver.prune(["copy"], strategy="delete")
        assert list(saver.list(None)) == []
        with pytest.raises(ValueError, match="keep_latest"):
            saver.prune(["run"], strategy="some")
        saver.close()

    await asyncio.to_thread(all_of_it)


async def test_the_same_thread_of_two_users_is_two_threads(server: str, caller: Caller) -> None:
    anybodys = MnemaSaver(server, caller.key)
    for user in ("maya", "jonas"):
        checkpoint = made(who=user)
        await anybodys.aput(config(user_id=user), checkpoint, {"source": "loop"}, checkpoint["channel_versions"])
    for user in ("maya", "jonas"):
        bound = anybodys.for_user(user)
        for saver, at in ((anybodys, config(user_id=user)), (bound, config())):
            found = await saver.aget_tuple(at)
            assert found is not None
            assert found.checkpoint["channel_values"] == {"who": user}
        with pytest.raises(ValueError, match="this saver belongs to user"):
            await bound.aget_tuple(config(user_id="somebody"))
    every = [found.config["configurable"]["user_id"] async for found in anybodys.alist(None)]
    assert sorted(every) == ["jonas", "maya"]
    await anybodys.for_user("maya").adelete_thread("run")
    assert await anybodys.aget_tuple(config(user_id="maya")) is None
    assert await anybodys.aget_tuple(config(user_id="jonas")) is not None
    for call in (anybodys.aget_tuple(config()), anybodys.adelete_thread("run")):
        with pytest.raises(ValueError, match="no user"):
            await call
    await anybodys.aclose()


async def test_another_tenant_and_a_key_bound_to_agents_reach_nothing(
    app: Application, server: str, caller: Caller
) -> None:
    owner = MnemaSaver(server, caller.key, user_id="maya")
    at = await owner.aput(config(), made(a=1), {"run_id": "r"}, {"a": "1"})
    await owner.aput_writes(at, [("a", 2)], "task")
    stranger = MnemaSaver(server, (await make_caller(app)).key, user_id="maya")
    assert await stranger.aget_tuple(at) is None
    assert [found async for found in stranger.alist(None)] == []
    await stranger.adelete_for_runs(["r"])
    await stranger.aprune(["run"], strategy="delete")
    await stranger.acopy_thread("run", "mine")
    await stranger.aput(config(), made(a="theirs"), {}, {"a": "1"})
    found = await owner.aget_tuple(at)
    assert found is not None
    assert (found.checkpoint["channel_values"], found.pending_writes) == ({"a": 1}, [("task", "a", 2)])
    planner = await make_caller(app, ["query", "write"], ["planner"], caller)
    bound = MnemaSaver(server, planner.key, user_id="maya")
    for refused in (bound.aget_tuple(at), bound.aput(config(), made(a=2), {}, {"a": "1"}), bound.adelete_thread("run")):
        with pytest.raises(NotAllowed, match="agent_not_allowed"):
            await refused
    for saver in (owner, stranger, bound):
        await saver.aclose()


async def test_writers_at_once_lose_nothing(server: str, caller: Caller) -> None:
    saver = MnemaSaver(server, caller.key, user_id="maya")
    at = await saver.aput(config(), made(a=0), {}, {"a": "1"})
    await asyncio.gather(
        *(saver.aput_writes(at, [("a", n), ("b", n)], f"task-{n:02}") for n in range(20)),
        *(saver.aput(at, made(f"{n}", a=n), {"n": n}, {"a": f"{n}"}) for n in range(2, 22)),
        *(saver.aput(config(ns="sub"), made(f"{n}", a=n), {"n": n}, {"a": f"{n}"}) for n in range(20)),
    )
    found = await saver.aget_tuple(at)
    assert found is not None
    assert found.pending_writes == [(f"task-{n:02}", channel, n) for n in range(20) for channel in "ab"]
    listed = [t async for t in saver.alist(config(ns=""))]
    assert sorted(t.checkpoint["channel_values"]["a"] for t in listed) == [0, *range(2, 22)]
    newest = await saver.aget_tuple(config())
    assert newest is not None
    assert newest.checkpoint["id"] == max(t.checkpoint["id"] for t in listed)
    await saver.aclose()


@pytest.mark.long
async def test_a_state_of_five_megabytes_goes_and_comes_and_a_larger_one_is_refused(
    server: str, caller: Caller
) -> None:
    saver = MnemaSaver(server, caller.key, user_id="maya", timeout_s=60)
    large = os.urandom(5_000_000)
    at = await saver.aput(config(), made(files=large), {}, {"files": "1"})
    await saver.aput_writes(at, [("files", large)], "task")
    for found in (await saver.aget_tuple(config()), await anext(saver.alist(config()))):
        assert found is not None
        assert found.checkpoint["channel_values"] == {"files": large}
        assert found.pending_writes == [("task", "files", large)]
    with pytest.raises(InvalidRequest, match="body_too_large"):
        await saver.aput(config("more"), made(files=large, more=large), {}, {"files": "1", "more": "1"})
    at = config("many")
    for n in range(4):
        at = await saver.aput(at, made(str(n), **{f"f{n}": large}), {}, {f"f{n}": str(n)})
    whole = made(**{f"f{n}": large for n in range(5)})
    whole["channel_versions"] = {f"f{n}": str(n) for n in range(5)}
    with pytest.raises(InvalidRequest, match="state_too_large"):
        await saver.aput(at, whole, {}, {"f4": "4"})
    await saver.aclose()


GRAPH = """
import os, signal, sys
from langgraph.graph import END, START, StateGraph
from mnema_client.langgraph import MnemaSaver

def build(saver, log, fatal):
    def node(name):
        def run(state):
            with open(log, "a") as file:
                file.write(name + "\\n")
            if name == fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            return {"done": state["done"] + [name]}
        return run
    names = ["supervisor", "planner", "executor", "critic"]
    graph = StateGraph(State)
    for name in names:
        graph.add_node(name, node(name))
    for one, other in zip([START, *names], [*names, END]):
        graph.add_edge(one, other)
    return graph.compile(checkpointer=saver)

from typing import TypedDict

class State(TypedDict):
    done: list[str]

if __name__ == "__main__":
    url, key, log, fatal = sys.argv[1:]
    graph = build(MnemaSaver(url, key, user_id="maya"), log, fatal)
    config = {"configurable": {"thread_id": "run"}}
    begun = graph.get_state(config).next
    out = graph.invoke(None if begun else {"done": []}, config, durability="sync")
    print(begun, out["done"])
"""


@pytest.mark.long
async def test_a_supervisor_that_is_killed_resumes_at_the_same_step(
    server: str, caller: Caller, tmp_path: Path
) -> None:
    script, log = tmp_path / "graph.py", tmp_path / "log"
    script.write_text(GRAPH)

    def run(fatal: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, str(script), server, caller.key, str(log), fatal]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    killed = await asyncio.to_thread(run, "executor")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = await asyncio.to_thread(run, "none")
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout.strip() == "('executor',) ['supervisor', 'planner', 'executor', 'critic']"
    assert log.read_text().split() == ["supervisor", "planner", "executor", "executor", "critic"]


async def test_a_graph_on_mnema_ends_as_one_in_memory(server: str, caller: Caller) -> None:
    def build(saver: Any) -> Any:
        graph = StateGraph(dict)
        graph.add_node("one", lambda state: {**state, "n": state["n"] + 1})
        graph.add_conditional_edges("one", lambda state: "one" if state["n"] < 5 else END)
        graph.add_edge(START, "one")
        return graph.compile(checkpointer=saver)

    saver = MnemaSaver(server, caller.key)
    at = {"configurable": {"thread_id": "run", "user_id": "maya"}}
    outcomes = []
    for kept in (saver, InMemorySaver()):
        graph = build(kept)
        end = await graph.ainvoke({"n": 0}, at)
        past = [state async for state in graph.aget_state_history(at)]
        fork = await graph.aupdate_state(past[2].config, {"n": 100})
        again = await graph.ainvoke(None, fork)
        outcomes.append((end, [(state.values, state.next) for state in past], again))
    assert outcomes[0] == outcomes[1]
    await saver.aclose()
