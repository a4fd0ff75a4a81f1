"""Fact extraction: facts have evidence, are few, are stored once, and come from the user's own words alone."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from app.bootstrap import Application, Doubles, build_application
from app.config.settings import Settings
from app.domain.jobs.job import JobKind, JobState, NewJob
from app.domain.principal import Principal
from app.domain.reflection.model_usage import LlmPolicy
from app.ports import Embedder
from app.storage.jobs.jobs import JobStorage
from app.storage.reflection.model_calls import ModelCallStorage
from app.usecases.reflection.model_gateway import ReportModel
from tests.factories import Clock, draft, make_caller
from tests.fake_llm import FakeLlm, Fault
from tests.fake_llm.prompts import Question, extract
from tests.usecases.conftest import Configured
from tests.usecases.reflecting import budget, calls, with_model, without_capture
from tests.usecases.stored import active_texts, events_of, history_of
from tests.usecases.turn_facts import FACTS, TURN, due, facts, say, work

pytestmark = pytest.mark.usefixtures("own")

LAST = "The user plans to run the Berlin marathon in 2027."


@pytest.fixture
def settings(settings: Settings, llm: FakeLlm, tmp_path: Path) -> Settings:
    """Settings without capture, with the scripted model and a short timeout."""
    return with_model(without_capture(settings, tmp_path), llm, timeout_s=2.0)


@pytest.mark.long
async def test_a_long_turn_becomes_at_most_three_facts_with_evidence(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    turn = await say(app, scope)
    report = await work(app, scope)
    assert (report["facts"], report["candidates"]) == (3, 4)
    assert report["tokens"] == await budget(sql) > 0
    assert await facts(sql) == FACTS
    [asked] = llm.asked
    assert asked.question["message"] == TURN
    assert "maya" not in str(asked.body), "the model gets no user_id"
    rows = await sql.fetch("SELECT * FROM memories WHERE type = 'semantic' ORDER BY id")
    for row in rows:
        assert row["source"]["turn_id"] == str(turn)
        assert row["source"]["quote"] in TURN
        assert (row["thread_id"], row["importance"], row["metadata"]) == ("talk", 3, {"prompt": "multi_fact.v5"})
        assert row["origin"] == "capture"
        assert "ADD" in [entry["event"] for entry in await history_of(sql, row["id"])]
    assert [row["category"] for row in rows] == ["profile", "relationships", "preferences"]
    assert (await events_of(sql)).count(("worker", "extract", "ok")) == 3


@pytest.mark.long
async def test_a_turn_is_done_once_whatever_the_model_says_the_next_time(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    await say(app, scope)
    await work(app, scope)
    [_later_round, job] = (await app.jobs.manage.list_jobs(scope, None, "reflect_turn", None, 10)).items
    await app.jobs.manage.replay_job(scope, job.id)
    assert (await work(app, scope))["why"] == "done"
    assert len(llm.asked) == 1
    await sql.execute(
        "DELETE FROM idempotency_keys WHERE key NOT LIKE '%:%'"
    )  # the worker ended before it recorded the end
    llm.always = lambda question: {"facts": list(reversed(extract(question)["facts"]))}
    await app.jobs.manage.replay_job(scope, job.id)
    assert (await work(app, scope))["why"] == "done", "the limit is reached, so the model is not asked"
    assert len(llm.asked) == 1
    await sql.execute("DELETE FROM idempotency_keys WHERE key NOT LIKE '%:0'")  # the worker ended after the first fact
    await app.jobs.manage.replay_job(scope, job.id)
    report = await work(app, scope)
    assert (report["facts"], report["known"]) == (0, 2), "the first run stored them"
    assert len(llm.asked) == 2
    assert await facts(sql) == FACTS


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"role": "assistant"}, "not_a_users"),
        ({"role": "system"}, "not_a_users"),
        ({"actor_id": "ben"}, "somebody_else"),
        ({"text": "Could you find me a hotel in Porto, please?"}, "short"),
        ({"text": "Thank you so much."}, "short"),
        ({"text": "\n".join(f"[tasks] I work as a nurse in Porto on floor {n}." for n in range(20))}, "short"),
        ({"text": "Memory updates since rev 3:\n- +created: [Personal] I keep bees (imp=2)\n" * 9}, "short"),
    ],
)
async def test_what_is_no_source_is_not_asked_about(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection, fields: dict[str, Any], why: str
) -> None:
    await say(app, scope, **{"text": TURN} | fields)
    assert (await work(app, scope))["why"] == why
    assert not llm.requests
    assert await facts(sql) == []


async def test_a_short_turn_that_plainly_tells_of_its_speaker_is_read(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    quotes = {
        "The user rents a house by the sea.": "I rent a house by the sea",
        "The user's sister Ana is vegan.": "my sister Ana is vegan",
        "The user is allergic to nuts.": "I am allergic to nuts",
    }
    one = {"category": "profile", "importance": 3}
    llm.scripts.append(lambda _: {"facts": [one | {"text": text, "quote": quotes[text]} for text in quotes]})
    await say(app, scope, "I rent a house by the sea, my sister Ana is vegan and I am allergic to nuts.")
    assert (await work(app, scope))["facts"] == 3
    assert await facts(sql) == list(quotes)


@pytest.mark.long
async def test_of_a_very_long_turn_all_is_read_in_pieces(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    noise = "The river is long and has boats. " * 600
    await say(app, scope, f"I work as a nurse in Porto. {noise} My daughter Lena is allergic to peanuts.")
    assert (await work(app, scope))["facts"] == 2
    assert await facts(sql) == ["The user works as a nurse in Porto.", FACTS[1]]
    read = [one.question["message"] for one in llm.asked if one.version == "multi_fact.v5"]
    assert len(read) == 3
    assert all(one.endswith(".") for one in read)


@pytest.mark.long
async def test_workers_who_read_a_users_turns_at_once_keep_the_cap_of_the_day(
    configured: Configured, scope: Principal, sql: asyncpg.Connection, clock: Clock
) -> None:
    app = await configured(capture={"per_turn": 0}, policies={"multi_fact": {"per_user_day": 4}})
    for n, (name, verb) in enumerate([("Lena", "trains"), ("Mia", "boats"), ("Ida", "buses"), ("Eva", "mules")] * 2):
        await say(
            app,
            scope,
            TURN.replace("Lena", f"{name}{n}").replace("trains", f"{verb}{n}").replace("Porto", f"{name}town{n}"),
        )
    for kind in ("after_turn", "reflect_turn"):
        jobs = [(tenant, job) for tenant, job, of in await app.jobs.run.collect_due_jobs() if of == kind]
        assert set(await asyncio.gather(*(app.jobs.run.run_job(*job, "test") for job in jobs))) == {"done"}
    assert (await events_of(sql)).count(("worker", "extract", "ok")) == 4
    assert await sql.fetchval("SELECT rev FROM reflections WHERE thread_id = 'facts'") == 4
    clock.move(days=1)
    await say(app, scope, TURN.replace("Lena", "Zoe").replace("trains", "ships").replace("Porto", "Bari"))
    assert (await work(app, scope))["facts"] == 3, "the limit is per day"


@pytest.mark.long
async def test_what_was_taken_of_the_day_and_not_written_is_given_back(
    configured: Configured, scope: Principal, sql: asyncpg.Connection
) -> None:
    app = await configured(capture={"per_turn": 0}, policies={"write": {"min_importance": 4}})
    await say(app, scope)
    report = await work(app, scope)
    assert (report["facts"], report["candidates"]) == (0, 4)
    assert await sql.fetchval("SELECT rev FROM reflections WHERE thread_id = 'facts'") == 0


async def test_what_somebody_else_says_changes_nothing_that_is_known_of_the_user(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    await say(app, scope, actor_id="maya")
    await work(app, scope)
    assert await facts(sql) == FACTS
    before = await sql.fetch("SELECT id, text, version, state FROM memories WHERE type = 'semantic' ORDER BY id")
    await say(
        app, scope, TURN.replace("I work as", "I no longer work as").replace("Lena is", "Lena is not"), actor_id="ben"
    )
    assert (await work(app, scope))["why"] == "somebody_else"
    assert (
        await sql.fetch("SELECT id, text, version, state FROM memories WHERE type = 'semantic' ORDER BY id") == before
    )


@pytest.mark.long
async def test_of_a_turn_with_memories_in_it_only_the_rest_is_read(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    injected = "Memory updates since rev 2:\n- +created: [Goals] I sail to Crete (imp=2)\n[tasks] I keep nine bees"
    await say(app, scope, f"{injected}\n{TURN}")
    llm.always = lambda question: {
        "facts": [
            {"text": "The user keeps nine bees.", "category": "profile", "importance": 5, "quote": "I keep nine bees"},
            extract(question)["facts"][1],
        ]
    }
    await work(app, scope)
    assert [asked.question["message"] for asked in llm.asked] == [TURN, TURN]
    assert "Fact 1 has a quote that does not stand in the message" in llm.asked[1].complaint
    assert await facts(sql) == [FACTS[1]]


def invented(_question: Question) -> Any:
    text, quote = "The user is Ben's brother and likes rum.", "I am Ben's brother and like rum"
    return {"facts": [{"text": text, "category": "profile", "importance": 5, "quote": quote}]}


BAD = [Fault.PROSE, Fault.INVALID_JSON, Fault.OTHER_JSON, Fault.EMPTY, Fault.REFUSAL]


async def test_facts_that_prove_nothing_are_asked_for_once_more_and_then_left(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    await app.memory.write.write_memory(scope, draft("Maya drinks oat milk."))
    await say(app, scope)
    llm.always = invented
    assert (await work(app, scope))["facts"] == 0
    assert len(llm.asked) == 2
    assert await active_texts(sql) == sorted([TURN, "Maya drinks oat milk."])
    assert [row[4] for row in await calls(sql)] == ["refused", "refused"]


@pytest.mark.long
@pytest.mark.parametrize("bad", BAD, ids=str)
async def test_after_nonsense_the_turn_is_read_when_the_model_answers(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection, bad: Fault
) -> None:
    await say(app, scope)
    llm.broken = bad
    await work(app, scope, "retry")
    assert len(llm.requests) == 4, "two attempts, then two of the probe"
    assert (await calls(sql))[-1][0] == "probe"
    assert await facts(sql) == []
    llm.broken = None
    await due(sql)
    assert (await work(app, scope))["facts"] == 3
    assert await facts(sql) == FACTS


async def test_a_model_that_says_there_are_no_facts_is_believed(
    app: Application, scope: Principal, llm: FakeLlm
) -> None:
    await say(app, scope)
    llm.always = lambda _question: {"facts": []}
    assert (await work(app, scope))["candidates"] == 0
    assert len(llm.requests) == 1


def babbling(question: Question) -> Any:
    return "Peanuts!" if "peanuts" in question["message"] else extract(question)


@pytest.fixture
async def hasty(configured: Configured) -> Application:
    """An application in which a job has two attempts."""
    policies = {"jobs": {"max_attempts": 2}, "multi_fact": {"per_turn": 4}}
    return await configured(capture={"per_turn": 0}, policies=policies)


async def test_a_turn_the_model_cannot_read_costs_two_calls_and_waits_for_another_model(
    hasty: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection, clock: Clock
) -> None:
    await say(hasty, scope)
    llm.always = babbling
    await work(hasty, scope, "retry")
    await say(hasty, scope, TURN.replace("peanuts", "bees"))
    assert (await work(hasty, scope))["facts"] == 4, "other jobs run"
    assert (await quiet(hasty, scope)).get("revived") is None
    assert sum("peanuts" in str(one.question) for one in llm.asked) == 2
    report = ReportModel(ModelCallStorage(hasty.parts.uow), LlmPolicy(), clock)
    assert (await report.build_report(scope, 1)).waiting == 1
    llm.always = None
    await sql.execute("UPDATE jobs SET last_error = replace(last_error, 'scripted', 'an older model')")
    assert (await quiet(hasty, scope))["revived"] == 1
    await due(sql)
    assert (await work(hasty, scope))["candidates"] > 0
    assert (await report.build_report(scope, 1)).waiting == 0


async def test_a_turn_that_no_model_can_read_is_told_after_some_days_and_can_be_replayed(
    hasty: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    await say(hasty, scope)
    llm.always = babbling
    await work(hasty, scope, "retry")
    await sql.execute("UPDATE jobs SET created_at = created_at - interval '3 days' WHERE kind = 'reflect_turn'")
    await due(sql)
    await work(hasty, scope, "dead")
    [dead] = (await hasty.jobs.manage.list_jobs(scope, JobState.dead, None, None, 10)).items
    assert (dead.last_error or "").startswith("unusable_answer: ")
    assert sum("peanuts" in str(one.question) for one in llm.asked) == 4, "two calls a day"
    llm.always = None
    await hasty.jobs.manage.replay_job(scope, dead.id)
    assert (await work(hasty, scope))["candidates"] > 0


async def test_unreadable_answers_take_a_share_of_the_day_and_no_more(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    llm.always = lambda _question: "Peanuts!"
    await say(app, scope)
    await work(app, scope, "retry")
    policy = app.parts.policies.defaults.llm
    share = int(policy.unreadable_share * policy.daily_tokens)
    await sql.execute("UPDATE llm_calls SET output_tokens = $1 WHERE error = 'malformed'", share)
    asked = len(llm.requests)
    await due(sql)
    await work(app, scope, "retry")
    assert len(llm.requests) == asked
    [reason] = await sql.fetch("SELECT last_error FROM jobs WHERE kind = 'reflect_turn'")
    assert reason["last_error"].startswith("tokens_spent: ")


async def quiet(app: Application, scope: Principal, expected: str = "done") -> Mapping[str, Any]:
    """Run the hourly `reflect` job alone and return its report."""
    [job_id] = await JobStorage(app.parts.uow, app.parts.policies.defaults.jobs).enqueue_jobs(
        scope, [NewJob(JobKind.reflect)]
    )
    assert await app.jobs.run.run_job(scope.tenant_id, job_id, "test") == expected
    return (await app.jobs.manage.get_job(scope, job_id)).report or {}


@pytest.mark.long
@pytest.mark.parametrize("away", [Fault.PROSE, Fault.OTHER, Fault.UNAVAILABLE], ids=str)
async def test_turns_of_an_outage_longer_than_their_attempts_come_back_by_themselves(
    hasty: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection, away: Fault
) -> None:
    llm.broken = away
    await say(hasty, scope)
    await work(hasty, scope, "retry")
    await due(sql)
    await work(hasty, scope, "dead")
    assert await facts(sql) == []
    asked = len(llm.requests)
    await quiet(hasty, scope, "retry")
    assert len(llm.requests) <= asked + 3, "it costs a probe, three times at most"
    llm.broken = None
    assert (await quiet(hasty, scope))["revived"] == 1
    await due(sql)
    assert (await work(hasty, scope))["facts"] == 4
    assert await facts(sql) == [*FACTS, LAST]


@pytest.mark.long
async def test_a_turn_is_not_brought_back_for_ever(
    hasty: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection, clock: Clock
) -> None:
    llm.broken = Fault.UNAVAILABLE
    await say(hasty, scope)
    await work(hasty, scope, "retry")
    await due(sql)
    await work(hasty, scope, "dead")
    llm.broken = None
    clock.move(days=hasty.parts.policies.defaults.llm.wait_days + 1)
    assert "revived" not in await quiet(hasty, scope)


@pytest.mark.long
async def test_a_model_that_hangs_holds_up_nothing_but_its_job_which_is_tried_again(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    llm.broken = Fault.HANG
    await say(app, scope)
    [(tenant_id, job_id, _kind)] = await app.jobs.run.collect_due_jobs()
    assert await app.jobs.run.run_job(tenant_id, job_id, "test") == "done", "jobs that need no model run as well"
    [(tenant_id, job_id, _kind)] = await app.jobs.run.collect_due_jobs()
    running = asyncio.create_task(app.jobs.run.run_job(tenant_id, job_id, "test"))
    await asyncio.wait_for(llm.hanging.wait(), 30)
    written = await app.memory.write.write_memory(scope, draft("Maya drinks oat milk."))
    assert written.action == "created", "everything else goes on meanwhile"
    assert await running == "retry"
    assert await facts(sql) == ["Maya drinks oat milk."]
    llm.broken, hung = None, len(llm.requests)
    await due(sql)
    await work(app, scope, "retry")
    assert len(llm.requests) == hung, "a model that hung is not asked for a while"
    await asyncio.sleep(2.0)
    await due(sql)
    assert (await work(app, scope))["facts"] == 3


@pytest.mark.long
async def test_the_caps_of_a_user_and_day_and_of_a_tenants_tokens(
    configured: Configured, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection, clock: Clock
) -> None:
    app = await configured(capture={"per_turn": 0}, policies={"multi_fact": {"per_user_day": 4}})
    await say(app, scope)
    assert (await work(app, scope))["facts"] == 3
    await say(app, scope, TURN.replace("Lena", "Mia").replace("trains", "boats").replace("Porto", "Lyon"))
    assert (await work(app, scope))["facts"] == 1
    await say(app, scope, TURN + " I have four cats.")
    assert (await work(app, scope))["why"] == "cap"
    assert ("worker", "extract", "skipped") in await events_of(sql)
    assert sum(one.version == "multi_fact.v5" for one in llm.asked) == 2
    await say(app, scope, user_id="ben")
    assert (await work(app, scope))["facts"] == 3
    await sql.execute("UPDATE llm_budget SET tokens = 200000")
    await say(app, scope, user_id="eve")
    await work(app, scope, "retry")
    assert ("worker", "llm", "skipped") in await events_of(sql)
    assert ("worker", "reflect_turn", "error") not in await events_of(sql), "this is not a failure"
    other = await make_caller(app)
    await say(app, other.scope)
    assert (await work(app, other.scope))["facts"] == 3
    assert await facts(sql, "eve") == []
    queued = (await app.jobs.manage.list_jobs(scope, JobState.queued, "reflect_turn", None, 10)).items
    [job] = [one for one in queued if one.user_id == "eve"]
    waits = (job.next_run - job.updated_at).total_seconds()
    assert (job.attempts, (job.last_error or "").split(":")[0]) == (0, "tokens_spent")
    await app.jobs.manage.replay_job(scope, job.id)
    await work(app, scope, "retry")
    assert waits <= 25 * 3600
    clock.move(days=1)
    await due(sql)
    while swept := await app.jobs.run.collect_due_jobs():
        for tenant_id, job_id, _kind in swept:
            await app.jobs.run.run_job(tenant_id, job_id, "test")
    assert len(await facts(sql, "eve")) == 3, "the turn is processed on the next day"
    told = "SELECT count(*) FROM memories WHERE type = 'semantic' AND user_id = 'maya' AND tenant_id = $1"
    assert await sql.fetchval(told, scope.tenant_id) > 4, "and so are facts beyond the limits of the day before"


@pytest.mark.long
async def test_the_same_said_again_joins_what_is_known(
    app: Application, scope: Principal, sql: asyncpg.Connection
) -> None:
    await say(app, scope)
    await work(app, scope)
    await say(app, scope, thread_id="another")
    report = await work(app, scope)
    assert (report["facts"], report["known"]) == (0, 3)
    assert await facts(sql) == FACTS
    assert await sql.fetchval("SELECT count(*) FROM history WHERE event = 'UPDATE'") == 0


async def test_of_an_agents_turn_facts_go_where_that_agent_may_look(
    app: Application, scope: Principal, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    await say(app, scope, agent_id="planner")
    await work(app, scope)
    assert set(llm.asked[0].question["categories"]) == {"goals", "tasks", "projects"}
    assert await sql.fetchval("SELECT count(*) FROM memories WHERE category = 'profile'") == 0


@pytest.mark.long
async def test_an_erased_users_turn_and_facts_do_not_come_back(
    app: Application, scope: Principal, sql: asyncpg.Connection
) -> None:
    await say(app, scope)
    await work(app, scope)
    await app.retention.erase.erase_user(scope, "maya")
    assert await facts(sql) == []
    assert await sql.fetchval("SELECT count(*) FROM idempotency_keys WHERE route = 'multi_fact'") == 0
    again = await app.memory.write.write_memory(scope, draft(FACTS[1], category="relationships"))
    assert again.action == "skipped"


async def test_without_a_model_a_turn_is_what_it_was(
    settings: Settings, embedder: Embedder, llm: FakeLlm, sql: asyncpg.Connection
) -> None:
    plain = settings.model_copy(update={"llm": "none"})
    async with build_application(plain, Doubles(embedder=embedder)) as app:
        scope = (await make_caller(app)).scope
        await say(app, scope)
        await work(app, scope)
        [job] = (await app.jobs.manage.list_jobs(scope, None, None, None, 10)).items
        assert (await app.jobs.manage.get_job(scope, job.id)).report == {
            "embedded": 0,
            "evicted": 0,
            "capture": {"why": "nothing"},
            "reflect": {"why": "no_model"},
        }
    assert not llm.requests
    assert await calls(sql) == []
