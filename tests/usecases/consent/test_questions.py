"""Consent in a conversation: only a plain yes or no to that very question decides (`docs/contract.md`, Consent)."""

import asyncio

import pytest

from app.bootstrap import Application
from app.domain.errors import EmptyText, QuestionNotAsked, QuestionWithoutValue, TextTooLong
from app.domain.memory.memory import MemoryType
from app.domain.principal import Principal
from tests.factories import Caller, Clock, draft, make_caller
from tests.usecases.consenting import ASKED, asked, assistant_of, known, propose, say, state_of, trail, work_off
from tests.usecases.crowd import SeededEmbedder

QUESTION = ASKED.format("Lisbon")


@pytest.fixture
def embedder() -> SeededEmbedder:
    """An embedder without a model that can be made to fail."""
    return SeededEmbedder()


@pytest.fixture
async def scope(app: Application, caller: Caller) -> Principal:
    """A tenant with stored data of maya."""
    await say(app, caller.scope, "Good morning.")
    await work_off(app, caller.scope)
    return caller.scope


async def test_a_plain_yes_to_the_question_decides(
    app: Application, scope: Principal, embedder: SeededEmbedder
) -> None:
    patch = await asked(app, scope)
    turn = await say(app, scope, "Yes, please!")
    reports = await work_off(app, scope)
    assert [r["consent"] for r in reports if "consent" in r] == ["yes"], "the first job found the answer"
    assert (await state_of(app, scope, patch.id), await known(app, scope)) == ("approved", {"city": "Lisbon"})
    actor, meta = (await trail(app, scope, patch.id))[-1]
    assert (actor, meta["action"], meta["way"]) == ("user", "approved", "chat")
    assert (meta["turn_id"], meta["question"], meta["thread_id"]) == (str(turn), "Shall I remember Lisbon?", "talk")


async def test_a_plain_no_rejects(app: Application, scope: Principal) -> None:
    patch = await asked(app, scope)
    await say(app, scope, "No, thanks.")
    await work_off(app, scope)
    assert (await state_of(app, scope, patch.id), await known(app, scope)) == ("rejected", {})


async def test_consent_waits_for_no_model(app: Application, scope: Principal, embedder: SeededEmbedder) -> None:
    patch = await asked(app, scope)
    await work_off(app, scope)
    embedder.failing = True
    await say(app, scope, "yes")
    [[tenant_id, job_id, _kind]] = await app.jobs.run.collect_due_jobs()
    await app.jobs.run.run_job(tenant_id, job_id, "test")
    assert await state_of(app, scope, patch.id) == "approved"


@pytest.mark.parametrize(
    ("turns", "verdict"),
    [
        ([{"text": "yes", "thread_id": "elsewhere"}], "open"),
        ([{"text": "yes", "user_id": "noor"}], "unclear"),
        ([{"text": "yes", "actor_id": "noor"}], "unclear"),
        ([{"text": "yes", "role": "assistant"}, {"text": "yes"}], "unclear"),
        ([{"text": "What time is it?"}, {"text": "yes"}], "unclear"),
        ([{"text": "Shall I book the room?", "role": "assistant"}, {"text": "yes"}], "unclear"),
        ([{"text": "{}", "role": "tool"}, {"text": "yes"}], "unclear"),
        ([{"text": "Lisbon is lovely, yes, but that is my own business"}], "unclear"),
        ([{"text": "yes", "user_id": "noor"}, {"text": "yes"}], "unclear"),
    ],
)
@pytest.mark.parametrize("each", [True, False], ids=["job by job", "jobs at the end"])
async def test_a_yes_to_anything_else_changes_nothing(
    app: Application, scope: Principal, turns: list[dict[str, str]], verdict: str, each: bool
) -> None:
    patch = await asked(app, scope)
    for turn in turns:
        await say(app, scope, **turn)
        if each:
            await work_off(app, scope)
    await work_off(app, scope)
    assert (await state_of(app, scope, patch.id), await known(app, scope)) == ("pending", {})
    actions = [meta["action"] for _actor, meta in await trail(app, scope, patch.id)]
    assert actions == ["proposed", "asked", *(["unanswered"] if verdict == "unclear" else [])]
    await say(app, scope, "yes")
    await work_off(app, scope)
    assert (await state_of(app, scope, patch.id) == "approved") is (verdict == "open")


async def test_a_yes_said_before_the_question_is_none(app: Application, scope: Principal) -> None:
    await say(app, scope, "yes")
    patch = await asked(app, scope)
    await work_off(app, scope)
    assert await state_of(app, scope, patch.id) == "pending"


async def test_a_yes_after_expiry_changes_nothing(app: Application, scope: Principal, clock: Clock) -> None:
    patch = await asked(app, scope)
    clock.move(days=7)
    await say(app, scope, "yes")
    await work_off(app, scope)
    assert (await state_of(app, scope, patch.id), await known(app, scope)) == ("expired", {})


async def test_a_yes_dated_back_before_expiry_changes_nothing(app: Application, scope: Principal, clock: Clock) -> None:
    patch = await asked(app, scope)
    said_at = clock.now()
    clock.move(days=8)
    await say(app, scope, "yes", created_at=said_at)
    await work_off(app, scope)
    assert await state_of(app, scope, patch.id) == "expired"


async def test_a_thread_has_one_question_and_a_proposal_one_thread(app: Application, scope: Principal) -> None:
    first, second = await asked(app, scope, "Lisbon"), await asked(app, scope, "Porto")
    await say(app, scope, "yes")
    await work_off(app, scope)
    assert [await state_of(app, scope, p.id) for p in (first, second)] == ["pending", "approved"]
    await asked(app, scope, "Lisbon", thread="one")
    await asked(app, scope, "Lisbon", thread="two")
    await say(app, scope, "yes", thread_id="one")
    await work_off(app, scope)
    assert await state_of(app, scope, first.id) == "pending"
    await say(app, scope, "yes", thread_id="two")
    await work_off(app, scope)
    assert await state_of(app, scope, first.id) == "approved"


async def test_a_proposal_decided_elsewhere_is_not_asked_about_any_more(app: Application, scope: Principal) -> None:
    patch = await asked(app, scope)
    await app.consent.decide_patch(scope, "maya", patch.id, approve=False)
    await say(app, scope, "yes")
    await work_off(app, scope)
    assert (await state_of(app, scope, patch.id), await known(app, scope)) == ("rejected", {})


async def test_an_answer_that_was_edited_or_purged_is_none(app: Application, scope: Principal) -> None:
    patch = await asked(app, scope)
    turn = await say(app, scope, "no way")
    await app.memory.edit.patch_memory(scope, turn, {"text": "yes"}, version=None)
    await work_off(app, scope)
    assert await state_of(app, scope, patch.id) == "pending"
    patch = await asked(app, scope)
    await app.memory.edit.purge_memory(scope, await say(app, scope, "no way"))
    await say(app, scope, "yes")
    await work_off(app, scope)
    assert await state_of(app, scope, patch.id) == "pending"


async def test_another_tenants_yes_in_a_thread_of_the_same_name_changes_nothing(
    app: Application, scope: Principal
) -> None:
    patch = await asked(app, scope)
    await work_off(app, scope)
    other = (await make_caller(app)).scope
    await say(app, other, "yes")
    await work_off(app, other)
    assert await state_of(app, scope, patch.id) == "pending"


async def test_answers_read_at_once_and_again_decide_once(app: Application, scope: Principal) -> None:
    patch = await asked(app, scope)
    await app.memory.write.write_memory(scope, draft("Maya likes trams.", thread_id="talk"))
    await say(app, scope, "yes")
    verdicts = await asyncio.gather(*(app.consent.chat.settle_question(scope, "talk") for _ in range(6)))
    assert sorted(v or "" for v in verdicts) == [""] * 5 + ["yes"]
    await work_off(app, scope)
    assert [meta["action"] for _actor, meta in await trail(app, scope, patch.id)] == ["proposed", "asked", "approved"]


async def test_a_yes_and_a_rejection_at_once_leave_one_of_them(app: Application, scope: Principal) -> None:
    for n in range(4):
        patch = await asked(app, scope, f"Town {n}")
        await say(app, scope, "yes")
        await asyncio.gather(
            app.consent.decide_patch(scope, "maya", patch.id, approve=False),
            app.consent.chat.settle_question(scope, "talk"),
            return_exceptions=True,
        )
        actions = [meta["action"] for _actor, meta in await trail(app, scope, patch.id)]
        assert actions in (["proposed", "asked", "approved"], ["proposed", "asked", "rejected"])
        assert ((await known(app, scope)).get("city") == f"Town {n}") is (actions[-1] == "approved")


async def test_a_turn_written_as_a_memory_is_the_next_turn_too(app: Application, scope: Principal) -> None:
    patch = await asked(app, scope)
    turn = {"type": MemoryType.turn, "category": "activity", "thread_id": "talk", "role": "user"}
    await app.memory.write.write_memory(scope, draft("What time is it?", **turn))
    await say(app, scope, "yes")
    await work_off(app, scope)
    assert await state_of(app, scope, patch.id) == "pending"


async def test_a_question_has_words_and_not_too_many(app: Application, scope: Principal) -> None:
    patch = (await propose(app, scope, "city", "Lisbon")).patch
    for question, error in ((" ?\u200b", EmptyText), ("a" * 501, TextTooLong), ("?x", QuestionWithoutValue)):
        with pytest.raises(error):
            await app.consent.chat.ask_question(scope, "maya", patch.id, "talk", question)


NOT_ASKED = {
    "nothing was said": [],
    "the user says it": [{"text": QUESTION}],
    "another thread": [{"text": QUESTION, "role": "assistant", "thread_id": "elsewhere"}],
    "another user": [{"text": QUESTION, "role": "assistant", "user_id": "noor"}],
    "another question": [{"text": "Shall I book the table for two?", "role": "assistant"}],
    "another question after it": [{"text": f"{QUESTION} And shall I book the table?", "role": "assistant"}],
    "an answer is there already": [{"text": QUESTION, "role": "assistant"}, {"text": "yes"}],
}


@pytest.mark.parametrize("case", NOT_ASKED)
async def test_a_question_is_the_threads_newest_turn_and_the_assistants(
    app: Application, scope: Principal, case: str
) -> None:
    other = assistant_of(scope)
    patch = (await propose(app, other, "city", "Lisbon")).patch
    for turn in NOT_ASKED[case]:
        await say(app, scope, **turn)
    with pytest.raises(QuestionNotAsked):
        await app.consent.chat.ask_question(other, "maya", patch.id, "talk", QUESTION)
    await say(app, scope, "yes")
    await work_off(app, scope)
    assert await state_of(app, scope, patch.id) == "pending"


async def test_a_question_names_its_turn(app: Application, scope: Principal) -> None:
    other = assistant_of(scope)
    patch = (await propose(app, other, "city", "Lisbon")).patch
    old = await say(app, scope, QUESTION, role="assistant")
    turn = await say(app, scope, QUESTION, role="assistant")
    ask = app.consent.chat.ask_question
    with pytest.raises(QuestionNotAsked):
        await ask(other, "maya", patch.id, "talk", QUESTION, turn_id=old)
    asked_ = (await ask(other, "maya", patch.id, "talk", QUESTION, turn_id=turn)).question
    assert asked_ is not None
    assert (asked_.turn_id, asked_.key_id) == (turn, other.key_id)
    await app.memory.edit.patch_memory(scope, turn, {"text": "Shall I book the table for two?"}, version=None)
    await say(app, scope, "yes")
    await work_off(app, scope)
    assert await state_of(app, scope, patch.id) == "pending", "the turn now asks something else"
    assert (await trail(app, scope, patch.id))[-1][1]["why"] == "lost"
