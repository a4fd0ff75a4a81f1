"""Chats with memory: what is stored, what is put before a message, what comes back."""

import json
from typing import Any

import pytest

from tests.api.chat.conftest import KEY, PATH, Talk, said, set_upstream
from tests.factories import make_caller
from tests.scripted_upstream import Fault

COLORS = "My favorite colors are red, white and blue."
SECOND = "What is my second favorite color?"
ADDED = {"memory_hits", "model_label", "meta"}


def parts_of(stream: str) -> list[dict[str, Any]]:
    """Return the parts of a streamed answer."""
    data = [event.removeprefix("data: ") for event in stream.strip().split("\n\n")]
    assert data[-1] == "[DONE]"
    return [json.loads(one) for one in data[:-1]]


@pytest.mark.long
async def test_facts_are_stored_and_answered_in_a_new_conversation_without_the_upstream(talk: Talk) -> None:
    stored = await talk.say(COLORS, memory_id="first")
    assert said(stored) == f"You said: {COLORS}"
    assert stored.json()["model_label"] == "Model: Memory-S(3) + scripted-1"
    asked = len(talk.upstream.log)
    plain = await talk.say(SECOND, memory_id="second")
    assert said(plain) == "Your second favorite color is white."
    assert plain.json()["model_label"] == "Model: Memory-R(1) + scripted-1"
    assert plain.json()["meta"] == {
        "usedWebSearch": False,
        "usedMemory": True,
        "memory_actions": {"S": 0, "U": 0, "R": 1, "F": False},
    }
    assert set(plain.json()["usage"].values()) == {0}
    streamed = await talk.say(SECOND, memory_id="third", stream=True)
    assert streamed.headers["content-type"].startswith("text/event-stream")
    parts = parts_of(streamed.text)
    assert "".join(part["choices"][0]["delta"].get("content", "") for part in parts) == said(plain)
    assert parts[-1]["model_label"] == plain.json()["model_label"]
    assert len(talk.upstream.log) == asked, "the upstream was not asked"
    assert await talk.turns("second") == [("user", SECOND), ("assistant", said(plain))]


@pytest.mark.long
async def test_a_correction_counts_as_an_update_and_unknown_facts_are_told_as_such(talk: Talk) -> None:
    await talk.say(COLORS)
    corrected = await talk.say("Actually, my favorite color is green.", memory_top_k=0)
    assert corrected.json()["model_label"] == "Model: Memory-U(1) + scripted-1"
    asked = len(talk.upstream.log)
    assert said(await talk.say("List my favorite colors")) == "Your favorite colors are 1) green, 2) white, 3) blue."
    unknown = await talk.say("What is my third favorite movie?", user="ben")
    assert said(unknown) == "I don't have that stored yet."
    assert unknown.json()["model_label"] == "Model: scripted-1"
    assert len(talk.upstream.log) == asked


async def test_a_fact_that_is_stated_before_a_question_is_stored(talk: Talk) -> None:
    await talk.say(COLORS)
    both = await talk.say(f"I'm tired. My favorite food is ramen. {SECOND}")
    assert said(both) == "Your second favorite color is white."
    assert said(await talk.say("What is my favorite food?")) == "Your favorite food is ramen."


async def test_a_rank_that_a_known_topic_lacks_is_answered_here(talk: Talk) -> None:
    await talk.say(COLORS)
    await talk.say("I painted the fence in a dark color last summer.")
    asked = len(talk.upstream.log)
    for memory_id in ("talk", "elsewhere"):
        ninth = await talk.say("What's my ninth favorite color?", memory_id=memory_id)
        assert said(ninth) == "I don't have that stored yet."
        assert ninth.json()["model_label"] == "Model: scripted-1"
        assert ninth.json()["meta"]["memory_actions"] == {"S": 0, "U": 0, "R": 0, "F": False}
    assert len(talk.upstream.log) == asked, "the upstream was not asked"


async def test_a_task_that_uses_favorites_gets_them_in_another_conversation(talk: Talk) -> None:
    await talk.say(COLORS)
    await talk.say("Plan a party that uses my favorite colors", memory_id="elsewhere")
    sent = talk.last.json["messages"][-1]["content"]
    assert "The user's favorite colors, in order: red, white, blue." in sent


@pytest.mark.long
@pytest.mark.parametrize(
    "texts",
    [
        ("Suggest three hotels in Graz.", "1. Weitzer\n2. Daniel\n3. Wiesler", "What was #2?"),
        ("Suggest three hotels in Graz.", "1. Weitzer\n2. Daniel\n3. Wiesler", "And what's the second one?"),
        ("My favorite dessert is tiramisu.", "Noted!", "What is my favorite cake?"),
        ("Do you remember my favorite color? Please suggest a scarf for it.",),
        ("Remind me of my favorite colors and book flights.",),
        ("My favorite color is green. What should I paint with it?",),
    ],
)
async def test_what_facts_do_not_answer_wholly_goes_to_the_upstream(talk: Talk, texts: tuple[str, ...]) -> None:
    await talk.say(COLORS)
    asked = len(talk.upstream.chats)
    answer = await talk.say(*texts, memory_top_k=0)
    assert said(answer).startswith("You said: ")
    assert len(talk.upstream.chats) == asked + 1


async def test_what_is_not_stored_as_a_fact_may_be_remembered(talk: Talk) -> None:
    await talk.remember("Of all desserts Maya loves tiramisu the most.")
    answer = await talk.say("What is my favorite dessert?", memory_score_threshold=0)
    assert said(answer).startswith("You said: ")
    assert "tiramisu" in talk.last.json["messages"][0]["content"]


async def test_an_upstream_that_answers_in_another_form_gets_the_facts(talk: Talk) -> None:
    await talk.say(COLORS, memory_id="first")
    answer = await talk.say(SECOND, memory_id="second", response_format={"type": "json_object"})
    assert talk.last.json["messages"][0]["content"].startswith(
        "Long-term memory (most relevant first):\n- [memory] Your second favorite color is white.\n"
    )
    assert answer.json()["memory_hits"][0]["content"] == "Your second favorite color is white."
    assert answer.json()["model_label"] == "Model: Memory-R(1) + scripted-1"
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    await talk.say(memory_id="third", messages=[{"role": "user", "content": [{"type": "text", "text": SECOND}, image]}])
    assert "Your second favorite color is white." in talk.last.json["messages"][0]["content"][0]["text"]


async def test_one_text_is_one_memory_and_a_long_one_is_cut(talk: Talk) -> None:
    for number in range(3):
        await talk.say("The harbour office of Trieste opens at nine.", memory_id=f"c{number}", memory_top_k=0)
    for number in range(3):
        turn = {"user_id": "maya", "thread_id": "one", "role": "user", "content": "The harbour office opens at nine."}
        assert (await talk.http.post("/turns", json=turn | {"seq": number})).status_code == 201
    long = {"user_id": "maya", "thread_id": "one", "role": "user", "content": "The harbour office is old. " * 200}
    assert (await talk.http.post("/turns", json=long)).status_code == 201
    answer = await talk.say("When does the harbour office open?", memory_id="one", memory_score_threshold=0)
    texts = [hit["content"] for hit in answer.json()["memory_hits"]]
    assert sorted(texts, key=len)[0] == "The harbour office opens at nine."
    assert len(texts) == len(set(texts)) == 2
    assert max(map(len, texts)) <= 1000


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "json_object"}},
        {"tool_choice": "required", "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]},
    ],
)
async def test_a_question_that_wants_another_form_goes_to_the_upstream(talk: Talk, fields: dict[str, Any]) -> None:
    await talk.say(COLORS)
    asked = len(talk.upstream.chats)
    assert (await talk.say(SECOND, **fields)).status_code == 200
    assert len(talk.upstream.chats) == asked + 1


async def test_memories_are_put_before_the_last_message_and_told(talk: Talk) -> None:
    await talk.remember("Maya is allergic to peanuts.")
    question = "Which food is Maya allergic to?"
    answer = await talk.say("Hi", "Hello!", question)
    sent = talk.last.json
    assert sent["messages"][:2] == [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]
    assert sent["messages"][2]["content"] == (
        "Long-term memory (most relevant first):\n- [memory] Maya is allergic to peanuts.\n\n"
        f"Current message: {question}"
    )
    [hit] = answer.json()["memory_hits"]
    assert (hit["role"], hit["content"]) == ("memory", "Maya is allergic to peanuts.")
    assert set(hit) == {"role", "content", "created_at", "score"}
    assert answer.json()["model_label"] == "Model: Memory-R(1) + scripted-1"
    streamed = await talk.say("Hi", "Hello!", "Tell me what food Maya is allergic to.", stream=True)
    told = parts_of(streamed.text)
    assert "Maya is allergic to peanuts." in [hit["content"] for hit in told[-1]["memory_hits"]]
    assert all(ADDED.isdisjoint(part) for part in told[:-1])


async def test_without_memories_and_fields_of_mnema_every_byte_passes(talk: Talk) -> None:
    body = b'{ "messages":[{"role":"user","content":"caf\\u00e9"}], "x" : 1.0e2,"model":"scripted-1","n":1}'
    answer = await talk.http.post("/v1/chat/completions", content=body, headers={"Content-Type": "application/json"})
    assert talk.last.body == body
    assert {name: value for name, value in answer.json().items() if name not in ADDED}["object"] == "chat.completion"


async def test_the_caller_can_turn_retrieval_off_or_ask_for_less(talk: Talk) -> None:
    for text in ("Maya likes oolong tea.", "Maya likes green tea.", "Maya likes mint tea."):
        await talk.remember(text)
    for count in (0, -1, 1, 2):
        answer = await talk.say(f"Which tea does Maya like? {count}", memory_top_k=count, memory_score_threshold=0)
        assert len(answer.json()["memory_hits"]) == max(count, 0)
    high = await talk.say("Which tea does Maya like, really?", memory_score_threshold=1)
    assert high.json()["memory_hits"] == []
    assert not any(name.startswith("memory") for one in talk.upstream.chats for name in one.json)


async def test_a_tool_result_passes_untouched_and_only_the_answer_is_stored(talk: Talk) -> None:
    await talk.remember("Maya is allergic to peanuts.")
    messages = [
        {"role": "user", "content": "What is Maya allergic to?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "nothing found"},
    ]
    answer = await talk.say(messages=messages)
    assert talk.last.json["messages"] == messages
    assert answer.json()["memory_hits"] == []
    assert await talk.turns() == [("assistant", said(answer))]


async def test_of_a_message_in_parts_only_the_first_text_changes(talk: Talk) -> None:
    await talk.remember("Maya is allergic to peanuts.")
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    parts = [image, {"type": "text", "text": "Is Maya allergic"}, {"type": "text", "text": "to this food?"}]
    await talk.say(messages=[{"role": "user", "content": parts}])
    first, second, third = talk.last.json["messages"][0]["content"]
    assert (first, third) == (image, parts[2])
    assert second["text"].endswith("Current message: Is Maya allergic")
    assert "peanuts" in second["text"]
    assert (await talk.turns())[0] == ("user", "Is Maya allergic\nto this food?")


async def test_the_users_turn_is_stored_before_the_upstream_is_asked(talk: Talk) -> None:
    talk.upstream.faults.append(Fault.SERVER_ERROR)
    answer = await talk.say("I moved to Lisbon.")
    assert answer.status_code == 500
    assert await talk.turns() == [("user", "I moved to Lisbon.")]


async def test_a_message_sent_again_after_an_error_is_stored_once(talk: Talk) -> None:
    talk.upstream.faults.extend([Fault.RATE_LIMITED, Fault.SERVER_ERROR])
    statuses = [(await talk.say("I moved to Lisbon.\nIn May.")).status_code for _ in range(3)]
    assert statuses == [429, 500, 200]
    assert [role for role, _ in await talk.turns()] == ["user", "assistant"]
    await talk.say("I moved to Lisbon.\nIn May.")
    assert [role for role, _ in await talk.turns()] == ["user", "assistant"] * 2, "it has an answer: it is said again"


async def test_an_idempotency_key_stores_once_and_belongs_to_one_request(talk: Talk) -> None:
    headers = {"Idempotency-Key": "k1"}
    first = await talk.say("I moved to Lisbon.", headers=headers)
    again = await talk.say("I moved to Lisbon.", headers=headers)
    assert (first.status_code, again.status_code) == (200, 200)
    assert [role for role, _ in await talk.turns()] == ["user", "assistant"]
    other = await talk.say("I moved to Porto.", headers=headers)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")
    assert other.json()["error"]["code"] == "idempotency_key_reused"


async def test_the_key_has_a_user_of_its_own(talk: Talk) -> None:
    await talk.say("I am at home.", user=None)
    user = f"key-{talk.caller.scope.key_id}"
    assert [role for role, _ in await talk.turns(user=user)] == ["user", "assistant"]
    assert await talk.turns() == []


async def test_a_web_search_of_the_caller_is_in_the_label_and_stays_here(talk: Talk) -> None:
    answer = await talk.say("Any news?", meta={"usedWebSearch": True})
    assert answer.json()["model_label"] == "Model: Brave + scripted-1"
    assert answer.json()["meta"]["usedWebSearch"] is True
    assert "meta" not in talk.last.json


async def test_the_models_of_the_upstream_are_listed(talk: Talk) -> None:
    listed = await talk.http.get("/v1/models")
    assert listed.json()["data"][0]["id"] == "scripted-1"
    assert talk.last.header("authorization") == f"Bearer {KEY}"


async def test_the_upstream_gets_its_own_key_or_the_callers_and_never_mnemas(talk: Talk) -> None:
    await talk.say("Hi")
    assert talk.last.header("authorization") == f"Bearer {KEY}"
    passed = {"X-Upstream-Authorization": "Bearer sk-mine", "OpenAI-Organization": "org-1", "Cookie": "a=b"}
    await talk.say("Hi", headers=passed)
    assert talk.last.header("authorization") == "Bearer sk-mine"
    assert talk.last.header("openai-organization") == "org-1"
    for received in talk.upstream.log:
        everything = received.body.decode() + str(received.headers)
        assert talk.caller.key not in everything
        assert {"cookie", "x-upstream-authorization"}.isdisjoint(name for name, _ in received.headers)


async def test_another_tenant_has_its_own_memory_and_upstream(talk: Talk) -> None:
    await talk.remember("Maya is allergic to peanuts.")
    await talk.say(COLORS)
    other = await make_caller(talk.app, ("chat",))
    async with other.client(str(talk.http.base_url)) as http:
        body = {"model": "m", "user": "maya", "messages": [{"role": "user", "content": SECOND}]}
        answer = await http.post("/v1/chat/completions", json=body)
        assert "don't have" in said(answer)
        body["messages"] = [{"role": "user", "content": "What is Maya allergic to?"}]
        asked = len(talk.upstream.log)
        said(await http.post("/v1/chat/completions", json=body))
        assert len(talk.upstream.log) == asked, "the installation's upstream answered"
        await set_upstream(talk.app, other, talk.upstream.base_url, "sk-other")
        answer = await http.post("/v1/chat/completions", json=body | {"memory_id": "fresh"})
    assert answer.json()["memory_hits"] == []
    assert talk.last.json["messages"] == body["messages"]
    assert talk.last.header("authorization") == "Bearer sk-other"


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        (b"{", 400, "malformed_body", None),
        (b"[]", 422, "invalid_request", None),
        (b'{"memory_topk":1,"messages":[]}', 422, "invalid_request", "memory_topk"),
        (b'{"memory_id":7,"messages":[]}', 422, "invalid_request", "memory_id"),
    ],
)
async def test_a_wrong_request_is_told_as_clients_of_openai_read_it(
    talk: Talk, body: bytes, status: int, code: str, param: str | None
) -> None:
    answer = await talk.http.post("/v1/chat/completions", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["error"] | {"message": ""} == {
        "message": "",
        "type": "invalid_request_error",
        "param": param,
        "code": code,
    }
    assert talk.upstream.log == []


async def test_what_only_the_upstream_knows_to_be_wrong_is_its_to_say(talk: Talk) -> None:
    talk.upstream.faults.append(Fault.REFUSED)
    answer = await talk.http.post("/v1/chat/completions", json={"model": 7, "messages": "none"})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("This model")


async def test_a_key_without_the_scope_and_no_key_are_refused(talk: Talk) -> None:
    reader = await make_caller(talk.app, ("query", "write"), tenant=talk.caller)
    async with reader.client(str(talk.http.base_url)) as http:
        refused = await http.post("/v1/chat/completions", json={"messages": []})
        assert (refused.status_code, refused.json()["error"]["type"]) == (403, "permission_error")
        nobody = await http.post("/v1/chat/completions", json={}, headers={"Authorization": "Bearer nothing"})
        assert (nobody.status_code, nobody.json()["error"]["type"]) == (401, "authentication_error")


async def test_a_key_of_an_agent_that_may_not_see_turns_may_not_chat(talk: Talk) -> None:
    bound = await make_caller(talk.app, ("chat",), agents=["stylist"], tenant=talk.caller)
    async with bound.client(str(talk.http.base_url)) as http:
        refused = await http.post("/v1/chat/completions", json={"messages": []})
    assert (refused.status_code, refused.json()["code"]) == (403, "category_not_allowed")
    assert talk.upstream.log == []


async def test_half_a_character_costs_no_turn(talk: Talk) -> None:
    half = json.dumps({"user": "maya", "messages": [{"role": "user", "content": "I like teal \ud83d."}]})
    await talk.http.post(PATH, content=half, headers={"Content-Type": "application/json"})
    assert await talk.turns() == [("user", "I like teal \ufffd.")]


async def test_half_a_character_in_the_name_of_a_model_is_replaced(talk: Talk) -> None:
    await talk.say("My favorite color is teal.")
    question = {"role": "user", "content": "What is my favorite color?"}
    asked = json.dumps({"model": "\ud800", "user": "maya", "messages": [question]})
    answer = await talk.http.post(PATH, content=asked, headers={"Content-Type": "application/json"})
    assert said(answer) == "Your favorite color is teal."
    assert answer.json()["model_label"] == "Model: Memory-R(1) + \ufffd"
    assert len(await talk.turns()) == 4


async def test_a_fact_in_doubt_goes_to_the_upstream_with_the_days_of_what_was_said(talk: Talk) -> None:
    await talk.say("My favorite band is Wet Leg.")
    await talk.say("Wet Leg leaves me cold since the last album.")
    question = "What is my favorite band?"
    asked = len(talk.upstream.log)
    assert said(await talk.say(question, memory_score_threshold=0)) != "Your favorite band is Wet Leg."
    assert len(talk.upstream.log) == asked + 1
    told = talk.last.json["messages"][-1]["content"]
    lines = [line for line in told.splitlines() if line.startswith("- [")]
    assert [line for line in lines if "leaves me cold" in line]
    assert [line for line in lines if "band is Wet Leg" in line]
    assert all(line.endswith(")") and "(20" in line for line in lines)
