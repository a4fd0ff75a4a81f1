"""The steps of a turn, with both clients, against a real server."""

import asyncio
import gc
import inspect
import json
import subprocess
import sys
from typing import Any

import pytest
from mnema_client import AsyncMnema, Mnema, NotFound, turn_memory
from mnema_client.turn_memory import (
    Scratchpad,
    format_assistant_signals_block,
    format_feedback_block,
    format_turn_memories_block,
    persist_turn_fingerprint,
    preload_conversation_memory_state,
    retrospective_context_view,
    sync,
    update_turn_fingerprint,
)

from tests.factories import Caller
from tests.sdk.turn_memory.conftest import EitherMemory

MAYA = {"user_id": "maya"}
MERMAID = {"key": "format", "value": "mermaid", "severity": "must", "scope": "conversation"}


async def test_what_a_turn_says_is_what_the_next_turns_read(memory: EitherMemory) -> None:
    first = memory.make_turn(1, user_text="Draw it in mermaid.")
    await memory.preload_conversation_memory_state(first)
    assert (first.turn_memories, first.feedback_items, first.assistant_signals) == ([], [], [])
    view = await memory.retrospective_context_view(first)
    assert (view.view, "user: Draw it in mermaid." in view.text) == ("reconciler", True)
    first.selected_local_memories_turn_ids = []
    signal = {"key": "pro_plan", "value": "39 euros", "severity": "recommend"}
    await memory.update_turn_fingerprint(
        first, objective="draw", topics=["diagrams"], assertions=[MERMAID], assistant_signals=[signal]
    )
    first.assistant_text = "Here it is."
    stored = await memory.persist_turn_fingerprint(first, extra_tags=["mine"])
    assert stored == first.tlog.state["fingerprint"]
    assert stored["assertions"] == [MERMAID]
    log = (await memory.send("get_turn", "talk", "turn_1", **MAYA)).content["turn_log"]
    assert (log["assistant_text"], log["state"]["fingerprint"]) == ("Here it is.", stored)
    await memory.send("turn_feedback", "talk", "turn_1", "not_ok", "Too small.", **MAYA)
    second = memory.make_turn(2, user_text="Draw it bigger.")
    await memory.preload_conversation_memory_state(second)
    assert second.turn_memories == [stored]
    assert [item["text"] for item in second.feedback_items] == ["Too small."]
    assert [turn["turn_id"] for turn in second.assistant_signals] == ["turn_1"]
    assert second.active_set is not None
    assert second.active_set.selected_local_memories_turn_ids == []
    assert "format=mermaid (must" in format_turn_memories_block(second.turn_memories)
    assert "Too small." in format_feedback_block(second.feedback_items)
    assert "signal: pro_plan = 39 euros" in format_assistant_signals_block(second.assistant_signals)


async def test_the_selection_filters_the_views_behind_the_reconciler(memory: EitherMemory) -> None:
    for number in (1, 2):
        await memory.persist_turn_fingerprint(
            memory.make_turn(number, proposed_facts=[{"key": "number", "value": number}])
        )
    turn = memory.make_turn(3, user_text="Which numbers?")
    await memory.preload_conversation_memory_state(turn)

    async def numbers(**fields: Any) -> list[int]:
        text = (await memory.retrospective_context_view(turn, **fields)).text
        return [number for number in (1, 2) if f"F: number={number}" in text]

    assert await numbers() == await numbers(view="gate") == [1, 2]
    for selected in ([], ["turn_2"]):
        turn.selected_local_memories_turn_ids = selected
        assert await numbers() == await numbers(view="final") == [2] * len(selected)
        assert await numbers(view="gate") == [1, 2]
    await memory.persist_turn_fingerprint(turn)
    assert turn.active_set is not None
    assert turn.active_set.selected_local_memories_turn_ids == ["turn_2"]


async def test_feedback_and_signals_are_read_once_a_turn(memory: EitherMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    send = memory.client.send

    def counted(call: Any) -> Any:
        sent.append(f"{call.method} {call.path} {call.params.get('kind', '')}")
        return send(call)

    monkeypatch.setattr(memory.client, "send", counted)
    turn = memory.make_turn(1, user_text="Draw it.")
    for _ in range(2):
        await memory.preload_conversation_memory_state(turn)
        await memory.retrospective_context_view(turn)
        await memory.persist_turn_fingerprint(turn)
        await memory.retrospective_context_view(turn, view="final")
    assert sum("assistant-signals" in call for call in sent) == 1
    assert sum("reaction" in call for call in sent) == 1
    assert sum(call.endswith("/turns/turn_1 ") for call in sent) == 1  # the texts did not change


async def test_a_later_update_keeps_what_it_does_not_name(memory: EitherMemory) -> None:
    turn = memory.make_turn(1)
    await memory.update_turn_fingerprint(turn, objective="draw", topics=["diagrams"])
    await memory.persist_turn_fingerprint(turn)
    signals = [{"key": "pro_plan", "severity": "mention", "scope": "conversation", "value": None}]
    await memory.update_turn_fingerprint(turn, assistant_signals=signals)
    stored = await memory.persist_turn_fingerprint(turn)
    assert (stored["objective"], stored["topics"], stored["assistant_signals"]) == ("draw", ["diagrams"], signals)
    await memory.update_turn_fingerprint(turn, topics=[])
    assert (await memory.persist_turn_fingerprint(turn))["topics"] == []


async def test_a_failed_call_is_raised_and_the_turn_can_begin_again(memory: EitherMemory) -> None:
    turn = memory.make_turn(1, user_text="Draw it.", project_id="acme/other")
    with pytest.raises(NotFound):
        await memory.preload_conversation_memory_state(turn)
    assert turn.active_set is None
    turn.project_id = None
    await memory.preload_conversation_memory_state(turn)
    assert turn.active_set is not None


async def test_the_current_turn_is_that_of_the_task(server: str, caller: Caller) -> None:
    async def work(number: int) -> str:
        turn = Scratchpad(
            client, user_id="maya", conversation_id="talk", turn_id=f"t{number}", user_text=f"Nr {number}"
        )
        await preload_conversation_memory_state(turn)
        await asyncio.sleep(0.01)
        update_turn_fingerprint(objective=f"objective {number}")
        stored = await persist_turn_fingerprint()
        return (
            f"{stored['turn_id']} {stored['objective']} {f'Nr {number}' in (await retrospective_context_view()).text}"
        )

    async with AsyncMnema(server, caller.key) as client:
        assert await asyncio.gather(*map(work, range(4))) == [f"t{n} objective {n} True" for n in range(4)]


@pytest.mark.long
async def test_without_a_turn_the_error_says_what_to_do(server: str, caller: Caller) -> None:
    async with AsyncMnema(server, caller.key) as client:
        with pytest.raises(LookupError, match="preload_conversation_memory_state"):
            update_turn_fingerprint(objective="x")
        turn = Scratchpad(client, user_id="maya", conversation_id="talk", turn_id="t1")
        await preload_conversation_memory_state(turn)
        assert update_turn_fingerprint(objective="x") == {"objective": "x"}
        del turn
        gc.collect()
        with pytest.raises(LookupError, match="pass the scratchpad"):
            await retrospective_context_view(...)
        with pytest.raises(TypeError, match="expected a Scratchpad, got str"):
            await retrospective_context_view("t1")  # type: ignore[arg-type]  # what the test is about


async def test_a_client_of_the_other_module_is_refused(server: str, caller: Caller) -> None:
    place = {"user_id": "maya", "conversation_id": "talk", "turn_id": "t1"}
    async with AsyncMnema(server, caller.key) as later:
        with pytest.raises(TypeError, match=r"use mnema_client\.turn_memory$"):
            sync.persist_turn_fingerprint(Scratchpad(later, **place))
    with Mnema(server, caller.key) as now, pytest.raises(TypeError, match=r"use mnema_client\.turn_memory\.sync$"):
        await turn_memory.persist_turn_fingerprint(Scratchpad(now, **place))


def test_both_modules_have_the_same_names_and_signatures() -> None:
    def parameters(function: Any) -> list[Any]:
        return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]

    assert turn_memory.__all__ == sync.__all__ == sorted(sync.__all__)
    for name in turn_memory.__all__:
        later, now = getattr(turn_memory, name), getattr(sync, name)
        assert later.__doc__, name
        assert parameters(later) == parameters(now), name
    for name in ("save_artifact", "fetch_conversation_artifacts"):
        assert parameters(getattr(turn_memory.ContextClient, name)) == parameters(getattr(sync.ContextClient, name))


@pytest.mark.long
def test_the_import_loads_nothing_more_than_the_client() -> None:
    probe = (
        "import sys, json; from mnema_client import AsyncMnema, Mnema; before = set(sys.modules);"
        "import mnema_client.turn_memory.sync;"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout)
    assert loaded
    assert [name for name in loaded if not name.startswith(("mnema_client.turn_memory", "mnema_wire."))] == []
