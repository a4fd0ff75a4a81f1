"""Turns that a chat model reads: the steps of a turn as integrators write them, the streams, and no model at all."""

import asyncio
import json
import textwrap
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mnema_client import AsyncMnema, BrokenOff, LimitReached, Mnema, NoChatModel, turn_memory
from mnema_client.turn_memory import Scratchpad, sync

from app.bootstrap import Application
from app.config.settings import Settings
from tests.factories import make_caller, replica
from tests.fake_llm import FakeLlm, Fault, fake_llm
from tests.sdk.conftest import apart
from tests.sdk.turn_memory.conftest import EitherMemory
from tests.usecases.reflecting import with_model

MAYA = {"user_id": "maya"}
PLANS = [{"key": "plan", "description": "a plan that was advised", "values": ["Family", "Solo"]}]
TYPICAL_TURN = """
# 0) Preload memory state (before gate)
await preload_conversation_memory_state(scratchpad)

# 1) Build journal for gate / ctx-reconciler
guess_ctx = await retrospective_context_view(...)

# 2) Run ctx-reconciler (extract prefs/facts + select memory turn_ids)
rro = await ctx_reconciler_stream(..., guess_package_json=guess_ctx)
scratchpad.extracted_prefs = {
    "assertions": rro.get("assertions") or [],
    "exceptions": rro.get("exceptions") or [],
}
scratchpad.proposed_facts = rro.get("facts") or []
scratchpad.selected_local_memories_turn_ids = rro.get("local_memories_turn_ids") or []

# 3) Update turn fingerprint (current turn)
update_turn_fingerprint(
    objective=rro.get("objective") or "",
    topics=current_topics,
    assertions=scratchpad.extracted_prefs["assertions"],
    exceptions=scratchpad.extracted_prefs["exceptions"],
    facts=scratchpad.proposed_facts,
)

# 4) Persist turn fingerprint (turn.log + index-only artifact)
await persist_turn_fingerprint(scratchpad)

# 5) Build downstream journal (filtered TURN MEMORIES block)
downstream_ctx = await retrospective_context_view(...)
"""
SAVED_FINGERPRINT = """
await ctx_client.save_artifact(
    kind="artifact:turn.fingerprint.v1",
    tenant=tenant, project=project,
    user_id=user, conversation_id=conversation_id,
    turn_id=turn_id, track_id=track_id,
    content=fingerprint_dict,
    extra_tags=extra_tags,
    index_only=True,
)
"""
TITLE = """
title = await ctx.fetch_conversation_artifacts(
    user_id=user_id,
    conversation_id=conversation_id,
    materialize=False,
    days=365,
).get("conversation_title")
"""
BLOCKS = """
from mnema_client.turn_memory.reading import (
    format_turn_memories_block,
    format_feedback_block,
    format_assistant_signals_block,
)

mem_block = format_turn_memories_block(turn_memories, order_label="newest→oldest", scope_label="conversation")
fb_block = format_feedback_block(feedback_items, order_label="newest→oldest", scope_label="conversation")
sig_block = format_assistant_signals_block(assistant_signals, order_label="newest→oldest", scope_label="user_cross_conversation")
"""  # noqa: E501 - as it is written


@pytest.fixture
async def llm() -> AsyncIterator[FakeLlm]:
    """Start a scripted model."""
    async with fake_llm() as running:
        yield running


@pytest.fixture
async def modelled(settings: Settings, llm: FakeLlm) -> AsyncIterator[tuple[str, Application]]:
    """Start a server whose chat model is the scripted one; return its address and its application."""
    async with replica(with_model(settings, llm)) as running:
        yield running


@pytest.fixture(params=[Mnema, AsyncMnema], ids=["waiting", "asyncio"])
async def reader(request: pytest.FixtureRequest, modelled: tuple[str, Application]) -> AsyncIterator[EitherMemory]:
    """Return each of the two modules in turn, at a server with a chat model."""
    url, app = modelled
    either = EitherMemory(request.param(url, (await make_caller(app)).key))
    yield either
    await either.send("close")


async def run_snippet(snippet: str, module: Any, **names: Any) -> dict[str, Any]:
    """Run code as an integrator writes it, with the names of a module; return its variables."""
    known = {name: getattr(module, name) for name in module.__all__}
    code = f"async def work():\n{textwrap.indent(snippet, '    ')}\n    return locals()"
    if module is sync:
        code = code.replace("async ", "").replace("await ", "")
    space: dict[str, Any] = {**known, **names}
    exec(code, space)  # noqa: S102 - the code is above
    result: dict[str, Any] = await (apart(space["work"]) if module is sync else space["work"]())
    return result


@pytest.mark.long
async def test_the_typical_turn_runs_as_it_is_written(reader: EitherMemory) -> None:
    said = ["Always answer in French. My budget is 400 euros.", "Never use Redis.", "Which database is best?"]
    for number, text in enumerate(said):
        turn = reader.make_turn(number, user_text=text)
        ran = await run_snippet(TYPICAL_TURN, reader.module, scratchpad=turn, current_topics=["databases"])
        assert [ran["guess_ctx"].view, ran["downstream_ctx"].view] == ["reconciler", "downstream"]
        assert turn.tlog.state["fingerprint"]["topics"] == ["databases"]
        assert f"turn_{number} (current turn)" in ran["downstream_ctx"].text
    assert turn.selected_local_memories_turn_ids == ["turn_1", "turn_0"]
    memories = ran["downstream_ctx"].blocks[4].text
    assert memories.startswith("[TURN MEMORIES — CHRONOLOGICAL (newest->oldest; scope=conversation)]")
    assert ["answer" in memories, "400" in memories, "redis" in memories] == [True, True, True]
    assert ran["rro"]["usage"]["total_tokens"] > 0
    shown = await run_snippet(
        BLOCKS,
        reader.module,
        turn_memories=turn.turn_memories,
        feedback_items=turn.feedback_items,
        assistant_signals=turn.assistant_signals,
    )
    assert shown["mem_block"].splitlines()[0] == "[TURN MEMORIES — CHRONOLOGICAL (newest→oldest; scope=conversation)]"
    assert shown["fb_block"].splitlines()[1] == shown["sig_block"].splitlines()[1] == "(none)"


async def test_a_fingerprint_and_a_title_are_saved_and_fetched_as_it_is_written(app: Application, server: str) -> None:
    tenant = await app.tenancy.tenants.create_tenant("acme/support")
    _key, secret = await app.tenancy.tenants.create_key(tenant.id, "test", ["admin"])
    place = {"user_id": "maya", "conversation_id": "talk"}
    for module, make in ((turn_memory, AsyncMnema), (sync, Mnema)):
        client: Any = make(server, secret)
        saved = {"tenant": "acme", "project": "support", "user": "maya", "turn_id": "turn_1", "track_id": "main"}
        title = f"Diagrams with {make.__name__}"
        content = {"objective": "draw", "conversation_title": title}
        context = module.ContextClient(client)
        await run_snippet(
            SAVED_FINGERPRINT,
            module,
            ctx_client=context,
            fingerprint_dict=content,
            extra_tags=["mine"],
            conversation_id="talk",
            **saved,
        )
        assert (await run_snippet(TITLE, module, ctx=context, **place))["title"] == title
        await EitherMemory(client).send("close")


@pytest.mark.long
async def test_the_summary_finds_signals_that_the_next_conversation_reads(reader: EitherMemory) -> None:
    turn = reader.make_turn(1, user_text="Which plan is best?", assistant_text="I recommend the Family plan.")
    found = await reader.turn_summary_stream(turn, assistant_signal_spec=PLANS)
    assert [(signal["key"], signal["value"]) for signal in found["assistant_signals"]] == [("plan", "Family")]
    await reader.update_turn_fingerprint(turn, assistant_signals=found["assistant_signals"])
    turn.summary = found["summary"]
    await reader.persist_turn_fingerprint(turn)
    other = reader.make_turn(1, "another talk", user_text="Good morning.")
    await reader.preload_conversation_memory_state(other)
    assert other.assistant_signals[0]["turn_id"] == "turn_1"
    shown = [(await reader.retrospective_context_view(other, view=view)).text for view in ("final", "downstream")]
    assert ["plan = Family" in text for text in shown] == [True, False]
    assert (await reader.turn_summary_stream(turn))["assistant_signals"] == []


@pytest.mark.long
async def test_the_pieces_of_the_answer_come_as_they_are_written(reader: EitherMemory, llm: FakeLlm) -> None:
    llm.faults.append(Fault.CUT)
    pieces: list[str] = []
    restarts: list[str] = []

    def drop(reason: str) -> None:
        restarts.append(reason)
        pieces.clear()

    turn = reader.make_turn(1, user_text="Never use Redis.")
    read = await reader.ctx_reconciler_stream(turn, on_delta=pieces.append, on_restart=drop)
    assert json.loads("".join(pieces))["objective"] == read["objective"] == "Never use Redis."
    assert restarts == ["malformed"]
    thoughts: list[str] = []
    await reader.ctx_reconciler_stream(turn, on_thinking_delta=thoughts.append)
    assert len(thoughts) >= 1


@pytest.mark.long
async def test_a_listener_may_be_awaited(modelled: tuple[str, Application]) -> None:
    heard: list[str] = []

    async def listen(piece: str) -> None:
        await asyncio.sleep(0)
        heard.append(piece)

    url, app = modelled
    key = (await make_caller(app)).key
    place = {"user_id": "maya", "conversation_id": "talk", "turn_id": "t1", "user_text": "Never use Redis."}
    async with AsyncMnema(url, key) as client:
        await turn_memory.ctx_reconciler_stream(Scratchpad(client, **place), on_delta=listen)
    assert "Redis" in "".join(heard)
    with Mnema(url, key) as waiting, pytest.raises(TypeError, match="a listener of mnema"):
        await apart(lambda: sync.ctx_reconciler_stream(Scratchpad(waiting, **place), on_delta=listen))


@pytest.mark.long
async def test_the_client_reads_turns_whole_and_streamed(reader: EitherMemory) -> None:
    await reader.send("put_turn", "talk", "t1", user_text="Never use Redis.", assistant_text="The Family plan.", **MAYA)
    whole = await reader.send("reconcile_turn", "talk", "t1", timezone="Europe/Madrid", **MAYA)
    assert [signal.severity for signal in whole.exceptions] == ["avoid"]
    summed = await reader.send("summarize_turn", "talk", "t1", assistant_signal_spec=PLANS, store=True, **MAYA)
    log = (await reader.send("get_turn", "talk", "t1", **MAYA)).content
    assert log["turn_log"]["summary"] == summed.summary != ""
    assert log["turn_summary"]["assistant_signals"][0]["value"] == "Family"

    async def events(name: str, **fields: Any) -> list[Any]:
        stream = getattr(reader.client, name)("talk", "t1", **MAYA, **fields)
        return await apart(lambda: list(stream)) if isinstance(reader.client, Mnema) else [one async for one in stream]

    *pieces, result = await events("stream_reconcile")
    assert json.loads("".join(piece.text for piece in pieces))["objective"] == result.objective == whole.objective
    assert (await events("stream_summary", assistant_signal_spec=PLANS))[-1].summary == summed.summary


async def test_an_error_within_a_stream_is_raised(reader: EitherMemory, llm: FakeLlm) -> None:
    llm.always = lambda question: "no JSON"
    with pytest.raises(Exception, match="unusable_answer") as failed:
        await reader.ctx_reconciler_stream(reader.make_turn(1, user_text="Never use Redis."))
    assert failed.value.status == 503  # type: ignore[attr-defined]  # an ApiError has it
    assert not isinstance(failed.value, BrokenOff | LimitReached)


async def test_without_a_chat_model_the_error_says_what_to_do_and_the_rest_works(memory: EitherMemory) -> None:
    turn = memory.make_turn(1, user_text="Never use Redis.", assistant_text="No Redis.")
    await memory.preload_conversation_memory_state(turn)
    for read in (memory.ctx_reconciler_stream, memory.turn_summary_stream):
        with pytest.raises(NoChatModel, match=r"MNEMA_LLM.* update_turn_fingerprint") as refused:
            await read(turn)
        assert (refused.value.status, refused.value.code) == (409, "no_chat_model")
    await memory.update_turn_fingerprint(turn, exceptions=[{"key": "database", "value": "Redis"}])
    assert (await memory.persist_turn_fingerprint(turn))["exceptions"][0]["severity"] == "avoid"
