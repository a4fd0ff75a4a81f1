"""Endpoints that refuse requests and wrap answers in their own ways: each readable answer is read."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from app.bootstrap.administration import ask_chat_model
from app.config.settings import Settings
from app.domain.outages import ChatModelUnavailable, UnusableAnswer
from app.ports import Prompt, Reply
from app.prompts import same_fact
from app.prompts.probe import PROBE
from app.providers.chat_models.model_endpoint import ModelEndpoint
from app.providers.chat_models.openai import OpenAIModel
from app.providers.chat_models.request_form import RequestForm
from tests.fake_llm import FakeLlm, fake_llm
from tests.fake_llm.behaviour import Behaviour, Spoken
from tests.fake_llm.endpoints import BEHAVIOURS
from tests.fake_llm.prompts import KNOWN

PAIRS = [("The user keeps three hives of bees.", "Three hives of bees are kept by the user.")]
PROMPT: Prompt[same_fact.Answer] = same_fact.same_fact_prompt(PAIRS)
MOST_LEARNED = 7


class Heard:
    """A listener that keeps the text."""

    def __init__(self) -> None:
        self.text = ""

    def add_text(self, piece: str) -> None:
        """Add the piece."""
        self.text += piece

    def begin_again(self, reason: str) -> None:
        """Drop the text."""
        self.text = ""


@pytest.fixture
async def server() -> AsyncIterator[FakeLlm]:
    """Start a scripted endpoint."""
    async with fake_llm() as running:
        yield running


async def ask(model: OpenAIModel, streams: bool) -> Reply[same_fact.Answer] | None:
    """Return the reply; None if the endpoint failed."""
    try:
        return await model.generate_reply(PROMPT, Heard() if streams else None)
    except ChatModelUnavailable:
        return None


async def test_doctor_tells_how_an_endpoint_is_asked(server: FakeLlm, monkeypatch: pytest.MonkeyPatch) -> None:
    server.behaviour = next(one for one in BEHAVIOURS if one.name == "every parameter is refused, one after another")
    settings = Settings(llm="openai", llm_base_url=server.base_url, llm_model="any")
    told = await ask_chat_model(settings)
    assert told == "text, max_completion_tokens, no temperature, no stop sequences, no system message"
    server.behaviour = next(one for one in BEHAVIOURS if one.name == "words alone")
    with pytest.raises(UnusableAnswer, match="no right answer"):
        await ask_chat_model(settings)
    server.behaviour = None
    wrong = replace(KNOWN[PROBE.version], answer=lambda _question: {"number": 1})
    monkeypatch.setitem(KNOWN, PROBE.version, wrong)
    with pytest.raises(UnusableAnswer, match="no right answer"):
        await ask_chat_model(settings)


@pytest.mark.filterwarnings("ignore:Failed to extract usage")
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=[one.title for one in BEHAVIOURS])
async def test_what_is_readable_is_read(server: FakeLlm, behaviour: Behaviour, streams: bool) -> None:
    server.behaviour = behaviour
    model = OpenAIModel(ModelEndpoint(base_url=server.base_url), "any", 30.0, RequestForm(**behaviour.settings))
    replies = [await ask(model, streams) for _ in range(3)]
    first = len(server.requests)
    again = await ask(model, streams)
    await model.close()
    assert first <= 3 + MOST_LEARNED
    assert len(server.requests) - first == 1, "what was learned is remembered"
    if not behaviour.is_readable:
        assert not any(reply and reply.value for reply in replies)
        return
    assert again is not None
    assert again.value is not None, model.describe()
    read = same_fact.read_same_fact(PAIRS, again.value)
    assert read.value == {0: "same"}


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("place", ["content", "reasoning_content", "call"])
async def test_half_a_character_in_the_json_of_an_endpoint_loses_nothing(
    server: FakeLlm, place: str, streams: bool
) -> None:
    def speak(said: str, _body: object) -> Spoken:
        half = said.replace("}", ', "note": "\ud83d"}', 1) + " \ud83d"
        if place == "content":
            return Spoken({"content": half})
        if place == "reasoning_content":
            return Spoken({"content": said, "reasoning_content": half})
        call = {"id": "c1", "type": "function", "function": {"name": "answer", "arguments": half}}
        return Spoken({"content": None, "tool_calls": [call]}, "tool_calls")

    server.behaviour = Behaviour("any", "half a character", speak=speak)
    model = OpenAIModel(ModelEndpoint(base_url=server.base_url), "any", 30.0)
    heard = Heard()
    reply = await model.generate_reply(PROMPT, heard if streams else None)
    await model.close()
    assert reply.value is not None
    assert same_fact.read_same_fact(PAIRS, reply.value).value == {0: "same"}
    assert heard.text.encode().count("\ufffd".encode()) == (2 if streams and place != "reasoning_content" else 0)
