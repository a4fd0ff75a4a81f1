"""A standing instruction that a chat states holds in the user's other chats."""

import pytest

from app.domain.filters import Filters
from app.usecases.recall.request import Query
from tests.api.chat.conftest import SCOPES, Talk, set_upstream
from tests.factories import make_caller

pytestmark = pytest.mark.usefixtures("own")  # it runs every job that is due
GERMAN = "From now on, please answer in German."
GRAMS = "Whenever I ask for a recipe, list the ingredients in grams."


async def learn(talk: Talk) -> None:
    """Run the jobs that are due, of all tenants: one that nobody runs is due again."""
    while due := await talk.app.jobs.run.collect_due_jobs():
        for tenant_id, job_id, _kind in due:
            assert await talk.app.jobs.run.run_job(tenant_id, job_id, "test") == "done"


def told(talk: Talk) -> str:
    """Return the message that the upstream was sent last."""
    content: str = talk.last.json["messages"][-1]["content"]
    return content


@pytest.mark.long
async def test_what_is_told_today_holds_tomorrow_in_another_thread(talk: Talk) -> None:
    await talk.say(GERMAN, memory_id="today")
    await talk.say(GRAMS, memory_id="today")
    await learn(talk)
    await talk.say("Who painted the ceiling of the chapel?", memory_id="tomorrow")
    assert "German" in told(talk)
    assert "grams" not in told(talk)
    await talk.say("What is a good recipe for lentil soup?", memory_id="tomorrow")
    assert "German" in told(talk)
    assert "in grams" in told(talk)


@pytest.mark.long
async def test_it_holds_for_its_user_tenant_and_categories_alone(talk: Talk) -> None:
    await talk.say(GERMAN, memory_id="today")
    await learn(talk)
    await talk.say("Who painted the ceiling?", memory_id="tomorrow", user="omar")
    assert "German" not in told(talk)
    stranger = await make_caller(talk.app, SCOPES)
    await set_upstream(talk.app, stranger, talk.upstream.base_url)
    async with stranger.client(str(talk.http.base_url)) as http:
        await Talk(http, talk.upstream, stranger, talk.app).say("Who painted the ceiling?", memory_id="tomorrow")
    assert "German" not in told(talk)
    for agent, seen in (("stylist", True), ("researcher", False)):
        query = Query(agent, "Who painted the ceiling?", filters=Filters(user_id="maya"))
        answer = await talk.app.recall.query.answer_query(talk.caller.scope, query)
        assert any(item.instruction is not None for item in answer.items) is seen


@pytest.mark.long
async def test_it_ends_when_the_user_lifts_it(talk: Talk) -> None:
    await talk.say("Always answer in German.", memory_id="today")
    await learn(talk)
    await talk.say("You don't have to answer in German any more.", memory_id="later")
    await learn(talk)
    await talk.say("Who painted the ceiling?", memory_id="tomorrow")
    assert "German" not in told(talk)
    states = {"user_id": "maya", "state": "superseded", "limit": 10}
    ended = (await talk.http.get("/memory", params=states)).json()["items"]
    assert {memory["type"] for memory in ended} == {"turn", "semantic"}  # what was said, and what was learnt from it


@pytest.mark.long
async def test_the_request_does_not_get_what_it_says_itself(talk: Talk) -> None:
    await talk.say(GERMAN, memory_id="today")
    await talk.say(GERMAN, "Gern.", "Who painted the ceiling?", memory_id="today")
    assert "German" not in told(talk)
