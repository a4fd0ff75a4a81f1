"""The database accepts a value of a user's context only with the proposal that was decided in the same transaction.

This holds whatever the application does.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

import asyncpg
import pytest

from app.domain.memory.memory import MemoryType
from app.domain.principal import Principal
from app.storage.identity import new_id
from app.storage.journal import Journal
from tests.storage.building import bind, creation, remembered

TURN, OURS = MemoryType.turn, {"job": "insight"}
DENIED = asyncpg.InsufficientPrivilegeError
Run: TypeAlias = Callable[..., Awaitable[str | None]]
ONE, TWO = "00000000-0000-7000-8000-000000000001", "00000000-0000-7000-8000-000000000002"


def proposal(
    patch: str = ONE, value: str = "Lisbon", field: str = "city", sensitive: bool = True, signals: str = "[]"
) -> str:
    return f"""
INSERT INTO context_patches (tenant_id, id, user_id, field, value, value_key, sensitive, signals, actor, created_at,
                             expires_at)
SELECT current_tenant(), '{patch}', 'maya', '{field}', '{value}', '\\x00', {sensitive}, '{signals}', 'me', now(),
       now() + '7 days'
"""


def history(patch: str = ONE) -> str:
    return f"""
INSERT INTO history (tenant_id, id, memory_id, event, actor)
VALUES (current_tenant(), gen_random_uuid(), '{patch}', 'CONSENT', 'me')
"""


def decide(patch: str = ONE, state: str = "approved", way: str = "route", at: str = "now()") -> str:
    return f"""
UPDATE context_patches SET state = '{state}', decided_at = {at}, decided_by = 'me', way = '{way}' WHERE id = '{patch}'
"""


def elsewhere(patch: str = ONE, value: str = "Lisbon", state: str = "approved") -> str:
    """Return the statement that stores a proposal that was decided elsewhere."""
    return f"""
INSERT INTO context_patches (tenant_id, id, user_id, field, value, value_key, sensitive, signals, actor, created_at,
                             expires_at, state, decided_at, decided_by, way)
SELECT current_tenant(), '{patch}', 'maya', 'city', '{value}', '\\x00', true, '[]', 'me', now(), now() + '7 days',
       '{state}', now(), 'me', 'route'
"""


def mark_imported(patch: str = ONE) -> str:
    return f"""
INSERT INTO history (tenant_id, id, memory_id, event, actor, meta)
VALUES (current_tenant(), gen_random_uuid(), '{patch}', 'CONSENT', 'me', '{{"imported": true}}')
"""


def put(patch: str = ONE, value: str = "Lisbon", field: str = "city", user: str = "maya", item: str = "") -> str:
    return f"""
INSERT INTO user_context (tenant_id, user_id, field, item, value, patch_id, updated_at)
VALUES (current_tenant(), '{user}', '{field}', '{item}', '{value}', '{patch}', now())
ON CONFLICT (tenant_id, user_id, field, item) DO UPDATE SET value = excluded.value, patch_id = excluded.patch_id
"""


WARM = ("Be warm.", "Be warm, please.", "I went home.", "Maya likes it warm.")
CLAIMED = {"kind": "turn", "root": "one", "confidence": 1, "says": True}


def applied(*memories: str, way: str = "signals") -> list[str]:
    """Return statements that apply a tone by these memories' ids. Other claims of a signal do not count."""
    told = json.dumps([CLAIMED | {"memory_id": memory, "root": memory} for memory in memories])
    benign = proposal(value="warm", field="tone", sensitive=False, signals=told)
    return [benign, history(), decide(state="applied", way=way), put(value="warm", field="tone")]


async def evidence(journal: Journal, scope: Principal) -> dict[str, str]:
    """Store one memory of maya of each kind; return their ids by kind."""
    made = {
        "turn": creation(scope, WARM[0], type=TURN, role="user"),
        "another turn": creation(scope, WARM[1], type=TURN, role="user"),
        "an unrelated turn": creation(scope, WARM[2], type=TURN, role="user"),
        "the assistant": creation(scope, "Warm, warm.", type=TURN, role="assistant"),
        "an episode": creation(scope, WARM[3], type=MemoryType.episodic),
        "of another user": creation(scope, "Be warm!", type=TURN, role="user", user_id="noor"),
    }
    made["a fact of the turn"] = creation(scope, WARM[3], source={"turn_id": str(made["turn"].memory_id)})
    for name, confidence, job in (("a claimed insight", 1, {}), ("a faint one", 0.4, OURS), ("an insight", 0.9, OURS)):
        new = creation(scope, WARM[3], type=MemoryType.insight, metadata={"confidence": confidence})
        made[name] = replace(new, history_meta=job)
    endless = creation(scope, WARM[3], type=MemoryType.insight, metadata={"confidence": 10**4000})
    made["an endless one"] = replace(endless, history_meta=OURS)
    other = creation(scope, WARM[2], type=MemoryType.insight, metadata={"confidence": 1})
    made["an unrelated insight"] = replace(other, history_meta=OURS)
    for change in made.values():
        await journal.record(scope, [change])
    return {name: str(change.memory_id) for name, change in made.items()}


DECIDED = (proposal(), history(), decide(), put())


@pytest.fixture
async def run(raw: asyncpg.Connection, journal: Journal, a: Principal) -> Run:
    """Return a function that runs statements as the application's role, in one transaction of a tenant that knows maya.

    The function returns the SQLSTATE with which they or their commit failed.
    """
    await remembered(journal, a)

    async def statements(*texts: str) -> str | None:
        try:
            async with raw.transaction():
                await bind(raw, a.tenant_id)
                for text in texts:
                    await raw.execute(text)
        except asyncpg.PostgresError as error:
            return str(error.sqlstate)
        return None

    return statements


@pytest.fixture
async def values(superuser: asyncpg.Connection) -> Callable[[], Awaitable[list[str]]]:
    """Return a function that reads all known values, as a role that sees everything."""

    async def found() -> list[str]:
        return [row["value"] for row in await superuser.fetch("SELECT value FROM user_context ORDER BY value")]

    return found


async def test_a_decided_proposal_puts_its_value(run: Run, values: Callable[[], Awaitable[list[str]]]) -> None:
    assert await run(*DECIDED) is None
    assert await values() == ["Lisbon"]


SILENT, CHECKED, FORBIDDEN, ONCE, AGAIN = "MN001", "23514", "42501", "MN409", "40001"
REFUSED = {
    "a value of no proposal": ([put(TWO)], "23503"),
    "of one that waits": ([proposal(), history(), put()], SILENT),
    "of one that was rejected": ([proposal(), history(), decide(state="rejected"), put()], SILENT),
    "another value than it says": ([proposal(), history(), decide(), put(value="Rome")], SILENT),
    "another field": ([proposal(), history(), decide(), put(field="language")], SILENT),
    "another user": ([proposal(), history(), decide(), put(user="noor")], SILENT),
    "a second one of a field with one value": ([proposal(), history(), decide(), put(item="x")], CHECKED),
    "no history": ([proposal(), decide(), put()], SILENT),
    "a proposal without history": ([proposal()], SILENT),
    "a sensitive field called benign": ([proposal(sensitive=False), history()], CHECKED),
    "signals for a sensitive field": ([proposal(), history(), decide(state="applied", way="signals")], AGAIN),
    "a decision by signals called a person's": ([proposal(), history(), decide(way="signals")], CHECKED),
    "a decision too late": ([proposal(), history(), decide(at="now() + '8 days'")], CHECKED),
    "an expiry too early": ([proposal(), history(), decide(state="expired", way="expiry")], CHECKED),
    "a decision nobody made": ([proposal(), history(), "UPDATE context_patches SET state = 'approved'"], CHECKED),
    "a proposal that says something else later": ([proposal(), "UPDATE context_patches SET value = 'Rome'"], FORBIDDEN),
    "a later end": ([proposal(), "UPDATE context_patches SET expires_at = now() + '1 year'"], FORBIDDEN),
    "a borrowed stamp": ([proposal(), "UPDATE context_patches SET decided_stamp = NULL"], FORBIDDEN),
    "a field with odd letters": ([proposal(field="City", sensitive=False), history()], CHECKED),
    "a value without end": ([proposal(value="x" * 501), history()], CHECKED),
    "signals in a transaction that says it imports": (
        [
            "SELECT set_config('app.importing', 'on', true)",
            proposal(value="warm", field="tone", sensitive=False),
            mark_imported(),
            decide(state="applied", way="signals"),
        ],
        AGAIN,
    ),
    "a decision of elsewhere without a record of its import": ([elsewhere(), history(), put()], SILENT),
    "a decision of elsewhere about what waits here": ([proposal(), elsewhere(), mark_imported()], "23505"),
    "a decision of elsewhere with a stamp": (
        [elsewhere().replace("way)", "way, decided_stamp)").replace("'route'", "'route', 1")],
        FORBIDDEN,
    ),
    "a rejection of elsewhere": ([elsewhere(state="rejected"), mark_imported(), put()], SILENT),
    "a yes to no question": (
        [proposal(), history(), decide(way="chat").replace("way = 'chat'", f"way = 'chat', answer_id = '{TWO}'")],
        AGAIN,
    ),
    "a yes that names no turn": ([proposal(), history(), decide(way="chat")], AGAIN),
    "a key that proposed and is forgotten": (
        [
            proposal(),
            history(),
            f"UPDATE context_patches SET keys = '{{{ONE}}}'",
            "UPDATE context_patches SET keys = '{}'",
        ],
        CHECKED,
    ),
    "a proposal about nobody": ([proposal().replace("'maya'", "'noor'"), history()], "23503"),
}


AGREE: list[tuple[str, list[str], bool]] = [
    ("signals", ["turn", "another turn"], True),
    ("signals", ["a fact of the turn", "another turn"], True),
    ("insight", ["an episode", "an insight"], True),
    ("signals", [], False),
    ("signals", ["turn"], False),
    ("signals", ["turn", "turn"], False),
    ("signals", ["turn", "a fact of the turn"], False),
    ("signals", ["turn", "an unrelated turn"], False),
    ("signals", ["turn", "the assistant"], False),
    ("signals", ["turn", "an episode"], False),
    ("signals", ["turn", "of another user"], False),
    ("signals", ["turn", "an insight"], False),
    ("insight", ["turn", "another turn"], False),
    ("insight", ["a claimed insight"], False),
    ("insight", ["a faint one"], False),
    ("insight", ["an endless one"], False),
    ("insight", ["an unrelated insight"], False),
]


async def test_signals_put_a_benign_value_if_their_memories_say_it(
    run: Run, values: Callable[[], Awaitable[list[str]]], journal: Journal, a: Principal
) -> None:
    made = await evidence(journal, a)
    for way, names, agree in sorted(AGREE, key=lambda row: row[2]):  # the ones that apply come last
        number = new_id()
        statements = [s.replace(ONE, str(number)) for s in applied(*(made[name] for name in names), way=way)]
        assert await run(*statements) == (None if agree else AGAIN), (way, names)
        assert await values() == (["warm"] if agree else [])


@pytest.mark.parametrize("case", REFUSED)
async def test_nothing_else_puts_a_value(case: str, run: Run, values: Callable[[], Awaitable[list[str]]]) -> None:
    statements, code = REFUSED[case]
    assert await run(*statements) == code
    assert await values() == []


LATER = {
    "a raw change": (["UPDATE user_context SET value = 'Rome'"], SILENT),
    "a raw change with history": ([history(), "UPDATE user_context SET value = 'Rome'"], SILENT),
    "a raw deletion": (["DELETE FROM user_context"], SILENT),
    "a raw deletion of what hangs together": (["DELETE FROM user_context", "DELETE FROM context_patches"], SILENT),
    "a second decision": ([history(), decide(state="rejected")], ONCE),
    "the first one taken back": ([history(), "UPDATE context_patches SET state = 'pending', decided_at = NULL"], ONCE),
    "another proposal's name": (
        [proposal(TWO, "Rome"), history(TWO), f"UPDATE user_context SET patch_id = '{TWO}'"],
        SILENT,
    ),
    "a decision of elsewhere in its place": ([elsewhere(TWO, "Rome"), mark_imported(TWO), put(TWO, "Rome")], SILENT),
    "another field's name": (["UPDATE user_context SET field = 'language'"], FORBIDDEN),
    "another user's name": (["UPDATE user_context SET user_id = 'noor'"], FORBIDDEN),
    "the guard taken away": (["ALTER TABLE user_context DISABLE TRIGGER ALL"], FORBIDDEN),
    "the guard switched off": (["SET session_replication_role = replica"], FORBIDDEN),
}


@pytest.mark.parametrize("case", LATER)
async def test_what_is_known_changes_by_a_decision_only(
    case: str, run: Run, values: Callable[[], Awaitable[list[str]]]
) -> None:
    assert await run(*DECIDED) is None
    statements, code = LATER[case]
    assert await run(*statements) == code
    assert await values() == ["Lisbon"]


async def test_an_old_decision_puts_nothing_again(run: Run, values: Callable[[], Awaitable[list[str]]]) -> None:
    assert await run(*DECIDED) is None
    assert await run(proposal(TWO, "Rome"), history(TWO), decide(TWO), put(TWO, "Rome")) is None
    assert await run(history(), history(TWO), put()) == SILENT
    assert await values() == ["Rome"]


async def test_what_is_withdrawn_with_history_goes(run: Run, values: Callable[[], Awaitable[list[str]]]) -> None:
    assert await run(*DECIDED) is None
    assert await run(history(), "DELETE FROM user_context") is None
    assert await values() == []


async def test_an_imported_decision_puts_its_value_until_that_is_withdrawn(
    run: Run, values: Callable[[], Awaitable[list[str]]]
) -> None:
    assert await run(elsewhere(), mark_imported()) is None
    assert await run(mark_imported(), put()) is None
    assert await values() == ["Lisbon"]
    assert await run(history(), "DELETE FROM user_context") is None
    assert await run(mark_imported(), put()) == SILENT
    assert await values() == []
