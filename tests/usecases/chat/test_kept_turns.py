"""Turns that a server kept: stored once, at the time when they were said, unless their user was erased since."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from app.bootstrap import Application
from app.domain.errors import NotFound
from app.domain.idempotency import IdempotencyKey
from app.domain.memory.kept_turn import KeptTurn
from app.domain.memory.memory import MemoryType, NewMemory
from app.domain.principal import Principal
from app.providers.file_turn_spool import FileTurnSpool
from app.storage.chat.key_cipher import KeyCipher
from app.storage.chat.turns import ChatTurnStorage
from app.storage.identity import new_id
from app.usecases.chat.kept_turns import KeptTurns
from app.usecases.memory.turns import CheckedTurn
from tests.factories import Caller, Clock, make_caller


@pytest.fixture
async def spool(tmp_path: Path) -> AsyncIterator[FileTurnSpool]:
    """Return a spool of the test's own."""
    spool = FileTurnSpool(tmp_path / "turns", 1 << 20, KeyCipher(b"s" * 32).of_kept_turns)
    yield spool
    await spool.close()


@pytest.fixture
def kept(app: Application, spool: FileTurnSpool) -> KeptTurns:
    """Return the use-case on this spool: the server's own rounds do not see it."""
    return KeptTurns(spool, app.memory.turns, ChatTurnStorage(app.parts.uow), app.parts.policies, Clock())


@pytest.fixture
def no_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a server that starts now store nothing by itself."""
    monkeypatch.setattr("app.bootstrap.application.KEPT_TURNS_S", 3600)


def said(scope: Principal, text: str, ago_s: float = 60, key: IdempotencyKey | None = None, **fields: Any) -> KeptTurn:
    """Return a turn of Maya that was said a while ago."""
    values: dict[str, Any] = {"user_id": "maya", "thread_id": "trip", "role": "user", "category": "activity"} | fields
    at = datetime.now(UTC) - timedelta(seconds=ago_s)
    return KeptTurn.of(new_id(), scope, NewMemory(text=text, type=MemoryType.turn, created_at=at, **values), key)


async def stored(app: Application, scope: Principal) -> list[tuple[str | None, str]]:
    """Return role and text of the stored turns, in order."""
    page = await app.recall.threads.list_turns(scope, "trip", "maya", None, 100)
    return [(memory.role, memory.text) for memory in page.items]


async def test_turns_are_stored_in_the_order_in_which_they_were_said(
    app: Application, caller: Caller, kept: KeptTurns
) -> None:
    turns = [said(caller.scope, "Hello.", 90), said(caller.scope, "Good day.", 80, role="assistant")]
    for turn in reversed(turns):
        assert await kept.keep_turn(turn)
    await kept.store_kept()
    assert await stored(app, caller.scope) == [("user", "Hello."), ("assistant", "Good day.")]
    page = await app.recall.threads.list_turns(caller.scope, "trip", "maya", None, 100)
    assert [memory.id for memory in page.items] == [turn.memory_id for turn in turns]
    assert [memory.created_at for memory in page.items] == [turn.turn.created_at for turn in turns]


async def test_a_turn_that_was_stored_unnoticed_is_not_stored_again(
    app: Application, caller: Caller, kept: KeptTurns
) -> None:
    turn = said(caller.scope, "Hello.")
    checked = CheckedTurn(app.memory.turns.check_turn(caller.scope, turn.turn), turn.memory_id)
    await app.memory.turns.store_checked(caller.scope, checked)
    await kept.keep_turn(turn)
    await kept.store_kept()
    assert await stored(app, caller.scope) == [("user", "Hello.")]


async def test_a_message_that_was_sent_again_is_stored_once(app: Application, caller: Caller, kept: KeptTurns) -> None:
    for ago_s in (90, 80):
        await kept.keep_turn(said(caller.scope, "Hello.", ago_s))
    await kept.keep_turn(said(caller.scope, "Good day.", 70, role="assistant"))
    await kept.keep_turn(said(caller.scope, "Hello.", 60))
    await kept.store_kept()
    assert [text for _role, text in await stored(app, caller.scope)] == ["Hello.", "Good day.", "Hello."]


async def test_an_idempotency_key_counts_as_in_the_request(app: Application, caller: Caller, kept: KeptTurns) -> None:
    key = IdempotencyKey("POST /v1/chat/completions", "k", b"h")
    await app.memory.turns.store_turn(caller.scope, said(caller.scope, "Hello.").turn, key=key)
    await kept.keep_turn(said(caller.scope, "Hello, later.", key=key))
    await kept.store_kept()
    assert await stored(app, caller.scope) == [("user", "Hello.")]


async def test_facts_of_a_kept_message_are_stored_and_a_newer_one_wins(
    app: Application, caller: Caller, kept: KeptTurns
) -> None:
    await app.memory.turns.store_turn(caller.scope, said(caller.scope, "My favorite color is teal.", 1).turn)
    await kept.keep_turn(said(caller.scope, "My favorite color is red.", 60))
    await kept.keep_turn(said(caller.scope, "My favorite food is rice.", 60))
    await kept.store_kept()
    answers = [
        await app.facts.answer.find_answer(caller.scope, "maya", "trip", f"What is my favorite {noun}?")
        for noun in ("color", "food")
    ]
    assert [[fact.value for fact in answer.facts] for answer in answers] == [["teal"], ["rice"]]


async def test_what_an_erased_user_had_said_is_not_stored(app: Application, caller: Caller, kept: KeptTurns) -> None:
    await app.memory.turns.store_turn(caller.scope, said(caller.scope, "I am here.").turn)
    before = said(caller.scope, "I moved to Rome.", 1)
    await app.retention.erase.erase_user(caller.scope, "maya")
    after = said(caller.scope, "Hello again.", 0)
    other = said(caller.scope, "I am Ben.", 1, user_id="ben")
    for turn in (before, after, other):
        await kept.keep_turn(turn)
    await kept.store_kept()
    assert await stored(app, caller.scope) == [("user", "Hello again.")]
    assert len((await app.recall.threads.list_turns(caller.scope, "trip", "ben", None, 100)).items) == 1


@pytest.mark.usefixtures("no_rounds", "own")
async def test_an_erasure_takes_along_what_this_server_keeps(app: Application, caller: Caller) -> None:
    await app.chat.kept.keep_turn(said(caller.scope, "I moved to Rome."))
    receipt = await app.retention.erase.erase_user(caller.scope, "maya")
    assert receipt.counts["memories"] == 1
    await app.chat.kept.store_kept()
    assert await stored(app, caller.scope) == []
    with pytest.raises(NotFound):
        await app.retention.erase.erase_user(caller.scope, "maya")


@pytest.mark.parametrize(("days", "waiting"), [(0, 1), (8, 0)])
async def test_a_refused_turn_holds_up_no_other_and_is_given_up_after_a_week(
    app: Application, caller: Caller, kept: KeptTurns, spool: FileTurnSpool, days: int, waiting: int
) -> None:
    ago_s = timedelta(days=days, seconds=90).total_seconds()
    await kept.keep_turn(said(caller.scope, "Nobody knows this category.", ago_s, category="gone"))
    await kept.keep_turn(said(caller.scope, "Hello.", 80))
    await kept.store_kept()
    assert await stored(app, caller.scope) == [("user", "Hello.")]
    assert spool.waiting_count == waiting


async def test_a_turn_of_a_tenant_that_is_gone_holds_up_no_other(
    app: Application, caller: Caller, kept: KeptTurns
) -> None:
    await kept.keep_turn(said(Principal(UUID(int=0)), "Hello."))
    await kept.keep_turn(said(caller.scope, "Hello."))
    await kept.store_kept()
    assert await stored(app, caller.scope) == [("user", "Hello.")]


async def test_a_turn_that_cannot_be_kept_is_counted(
    app: Application, caller: Caller, kept: KeptTurns, tmp_path: Path
) -> None:
    full = FileTurnSpool(tmp_path / "full", 0, KeyCipher(b"s" * 32).of_kept_turns)
    kept = KeptTurns(full, app.memory.turns, ChatTurnStorage(app.parts.uow), app.parts.policies, Clock())
    assert not await kept.keep_turn(said(caller.scope, "Hello."))
    assert kept.lost_count == 1
    await full.close()


async def test_an_erasure_holds_for_a_person_whom_only_another_server_knows(
    app: Application, caller: Caller, kept: KeptTurns, spool: FileTurnSpool
) -> None:
    await kept.keep_turn(said(caller.scope, "I moved to Rome.", 1))
    with pytest.raises(NotFound):
        await app.retention.erase.erase_user(caller.scope, "maya")
    await kept.store_kept()
    assert await stored(app, caller.scope) == []
    assert spool.waiting_count == 0


async def test_a_key_of_an_agent_states_no_more_facts_later_than_at_once(
    app: Application, caller: Caller, kept: KeptTurns
) -> None:
    policies = app.parts.policies.of(caller.scope)
    seen = policies.categories.allowlists
    agent = next(name for name in seen if policies.facts.category not in seen[name])
    bound = await make_caller(app, ("chat",), [agent], caller)
    await kept.keep_turn(said(bound.scope, "My favorite color is teal."))
    await kept.store_kept()
    answer = await app.facts.answer.find_answer(caller.scope, "maya", "trip", "What is my favorite color?")
    assert not answer.facts
