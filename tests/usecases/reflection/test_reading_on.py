"""No turn is skipped: turns beyond a limit are read in the next round, job, hour or day, oldest first (ADR 12)."""

from typing import Any

import asyncpg
import pytest

from app.bootstrap import Application
from app.config.settings import Settings
from app.domain.memory.memory import MemoryType
from app.domain.principal import Principal
from app.prompts import episode, summary
from tests.factories import Clock
from tests.fake_llm import FakeLlm, Fault
from tests.usecases.conftest import Configured
from tests.usecases.models import WordsEmbedder
from tests.usecases.quiet_talks import made, say, sweep_quiet, work
from tests.usecases.reflecting import with_model

pytestmark = pytest.mark.usefixtures("own")

VERSIONS = (episode.VERSION, summary.VERSION)


@pytest.fixture
def settings(settings: Settings, llm: FakeLlm) -> Settings:
    """Settings with the scripted model."""
    return with_model(settings, llm, timeout_s=5.0)


@pytest.fixture
def embedder() -> WordsEmbedder:
    """An embedder for which texts that share words are near each other."""
    return WordsEmbedder("all-MiniLM-L6-v2", 384)


@pytest.fixture
async def app(configured: Configured) -> Application:
    """An application that extracts no facts from short turns, so that all calls belong to reflection."""
    return await configured(policies={"multi_fact": {"confident_characters": 200}})


def rounds(llm: FakeLlm, version: str) -> list[list[str]]:
    """Return the turns that each question of a prompt contained."""
    first = [one.question for one in llm.asked if one.version == version and not one.complaint]
    return [[message["text"] for message in one["messages"]] for one in first]


def shown(llm: FakeLlm, version: str) -> list[str]:
    """Return all turns that a prompt contained, in order."""
    return [text for one in rounds(llm, version) for text in one]


def nothing(question: dict[str, Any]) -> Any:
    """Return the answer of a model that finds nothing worth storing."""
    return {"summary": ""} if "summary" in question else {"episodes": []}


@pytest.mark.long
async def test_of_an_agents_work_every_turn_of_the_user_is_read(
    app: Application, scope: Principal, llm: FakeLlm
) -> None:
    talk = []
    for n in range(6):
        talk += [f"I have fact number {n} about my town.", f"Answer {n}."]
        await say(app, scope, talk[-2])
        await say(app, scope, *(f"Result {n}.{k} of a tool." for k in range(4)), role="tool")
        await say(app, scope, talk[-1], role="assistant")
        await work(app)
    assert rounds(llm, episode.VERSION) == [talk[:6], talk[6:]]
    assert rounds(llm, summary.VERSION) == [talk]


@pytest.mark.long
async def test_a_backlog_is_read_from_its_beginning_within_rounds_a_cap_and_days(
    app: Application, scope: Principal, llm: FakeLlm, clock: Clock
) -> None:
    clock.move_to_noon()  # an hour and a half later it is still the same day
    talk = [f"On day {n} I saw the {word}{n} of town {n}." for n, word in enumerate(["sea", "mill", "cave"] * 20)]
    await say(app, scope, *talk)
    [first, *_] = await due(app, "after_turn")
    await app.jobs.run.run_job(scope.tenant_id, first, "test")
    [reading] = await due(app, "reflect_turn")
    await app.jobs.run.run_job(scope.tenant_id, reading, "test")
    assert rounds(llm, episode.VERSION) == [talk[at : at + 10] for at in (0, 10, 20, 30)], "four rounds in a job"
    assert rounds(llm, summary.VERSION) == [talk[:40], talk[40:]]
    episodes = await made(app, scope, MemoryType.episodic)
    assert [one.source and one.source["turns"] for one in episodes] == [10] * 4
    await work(app)
    for _hour in range(3):
        clock.move(minutes=30)
        await sweep_quiet(app, scope)
    assert len(await made(app, scope, MemoryType.episodic)) == 5
    assert shown(llm, episode.VERSION) == talk[:50], "the day has its five episodes; the model is not asked"
    clock.move(days=1)
    await sweep_quiet(app, scope)
    assert shown(llm, episode.VERSION) == shown(llm, summary.VERSION) == talk
    clock.move(days=1)
    await sweep_quiet(app, scope)
    assert shown(llm, episode.VERSION) == shown(llm, summary.VERSION) == talk, "each turn once"


async def due(app: Application, kind: str) -> list[Any]:
    """Return the ids of the due jobs of a kind."""
    return [job_id for _tenant, job_id, of in await app.jobs.run.collect_due_jobs() if of == kind]


@pytest.mark.long
async def test_long_turns_are_read_whole_and_only_one_that_fits_nowhere_is_cut(
    app: Application, scope: Principal, llm: FakeLlm, clock: Clock
) -> None:
    talk = []
    for n in range(6):
        talk += [
            f"Turn {n} of mine. " + "I walked by the river and saw boats. " * 54,
            f"Answer {n}. " + "The river is long and has boats. " * 60,
        ]
    talk.insert(4, "I wrote a book. " + "It has a chapter about boats, and I like it. " * 500)
    whole = [text.strip() for text in talk]
    for n, text in enumerate(talk):
        await say(app, scope, text, role="assistant" if text.startswith("Answer") else "user")
        if n % 2:
            await work(app)
    clock.move(hours=2)
    await sweep_quiet(app, scope)
    for version, most in ((episode.VERSION, episode.MAX_TRANSCRIPT), (summary.VERSION, summary.MAX_TRANSCRIPT)):
        texts = shown(llm, version)
        assert [text for text in texts if not text.startswith("I wrote")] == [
            text for text in whole[: len(texts)] if not text.startswith("I wrote")
        ]
        [cut] = [text for text in texts if text.startswith("I wrote")]
        assert most // 2 < len(cut) <= most
        assert cut.endswith("I like it.")
        assert len(texts) >= len(whole) - 1, "an assistant's turn alone waits for the next turn"


@pytest.mark.long
async def test_an_answer_is_not_lost_when_a_thread_goes_quiet(
    app: Application, scope: Principal, llm: FakeLlm, clock: Clock, sql: asyncpg.Connection
) -> None:
    talk = [f"I painted wall number {n}." for n in range(6)]
    await say(app, scope, *talk)
    await work(app)
    await say(app, scope, "I have booked flight 42 for you.", role="assistant")
    await work(app)
    marks = await sql.fetch("SELECT * FROM reflections WHERE kind <> 'day' ORDER BY kind, thread_id")
    for _hour in range(3):
        clock.move(hours=1)
        report = await sweep_quiet(app, scope)
        assert (report["episode"], report["summary"]) == ({"created": 0, "updated": 0, "tokens": 0},) * 2
    assert await sql.fetch("SELECT * FROM reflections WHERE kind <> 'day' ORDER BY kind, thread_id") == marks
    await say(app, scope, "Which seat did I get?")
    clock.move(hours=1)
    await sweep_quiet(app, scope)
    expected = [*talk, "I have booked flight 42 for you.", "Which seat did I get?"]
    assert shown(llm, episode.VERSION) == shown(llm, summary.VERSION) == expected


@pytest.mark.long
async def test_what_fails_on_the_way_is_read_again_from_where_it_failed(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    llm.always = nothing
    talk = [f"On day {n} I saw town {n}." for n in range(35)]
    await say(app, scope, *talk)
    seen = 0

    def cut(question: dict[str, Any]) -> Any:
        nonlocal seen
        seen += 1
        if seen == 2:
            llm.broken = Fault.UNAUTHORISED  # the model fails from the third round on
        return nothing(question)

    llm.always = cut
    assert "retry" in await work(app)
    assert shown(llm, episode.VERSION)[:20] == talk[:20]
    llm.broken, llm.always = None, nothing
    await sql.execute("UPDATE jobs SET next_run = now() - interval '1 s', published_at = NULL WHERE state = 'queued'")
    read = len(rounds(llm, episode.VERSION))
    assert set(await work(app)) == {"done"}
    assert [text for one in rounds(llm, episode.VERSION)[read:] for text in one] == talk[20:]
    assert shown(llm, summary.VERSION) == talk


async def test_turns_that_hold_nothing_of_the_users_are_passed_without_asking(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    await say(app, scope, *(f"Memory updates since rev {n}:\n- +created: [Goals] Rob bank {n}" for n in range(6)))
    await work(app)
    assert not llm.asked
    marks = await sql.fetch("SELECT DISTINCT rev FROM reflections WHERE kind IN ('episode', 'summary')")
    assert [row["rev"] for row in marks] == [6]


@pytest.mark.long
async def test_users_who_had_their_episodes_do_not_hold_up_others(
    configured: Configured, scope: Principal, llm: FakeLlm, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.usecases.reflection.reflect.AT_ONCE", 1)
    app = await configured(policies={"episodes": {"per_user_day": 1, "rounds": 1}})
    await say(app, scope, "I saw a fox.", "I saw a hare.", "I saw a mole.")
    await work(app)
    await say(app, scope, "I saw an owl.", "I saw a crow.", "I saw a rook.")
    await work(app)
    await say(app, scope, "I saw a film.", user_id="ben", thread_id="ben")
    await work(app)
    for _run in range(2):
        clock.move(minutes=11)
        await sweep_quiet(app, scope)
    assert len(await made(app, scope, MemoryType.episodic, "ben")) == 1
    clock.move(days=1)
    for _run in range(2):
        await sweep_quiet(app, scope)
    assert "I saw a rook." in shown(llm, episode.VERSION)
