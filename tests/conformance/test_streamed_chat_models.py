"""Answers of chat models that are streamed to a listener, over real sockets."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from app.domain.outages import ChatModelUnavailable, NoChatModel, UnusableAnswer
from app.domain.reflection.model_usage import estimate_tokens
from app.ports import ChatModel, Prompt
from app.prompts.same_fact import Answer, same_fact_prompt
from app.providers.chat_models import NullChatModel
from app.providers.chat_models.model_endpoint import ModelEndpoint
from app.providers.chat_models.openai import INTERRUPTED, MAX_ANSWER, OpenAIModel
from app.providers.measured import MeasuredChatModel
from app.providers.metrics import Metrics
from tests.fake_llm import FakeLlm, Fault, fake_llm
from tests.hearing import Heard

Opener = Callable[[FakeLlm], AbstractAsyncContextManager[ChatModel]]
PROMPT: Prompt[Answer] = same_fact_prompt([("The user's son is 3.", "The user's son is 4.")])


@asynccontextmanager
async def plain_model(server: FakeLlm, timeout_s: float = 30.0) -> AsyncIterator[ChatModel]:
    """Open a model of the scripted endpoint."""
    model = OpenAIModel(ModelEndpoint(base_url=server.base_url), "any-model", timeout_s)
    yield model
    await model.close()


@asynccontextmanager
async def measured_model(server: FakeLlm, timeout_s: float = 30.0) -> AsyncIterator[ChatModel]:
    """Open the same model with its calls measured."""
    async with plain_model(server, timeout_s) as inner:
        yield MeasuredChatModel(inner, Metrics("0"))


MODELS = [plain_model, measured_model]


@pytest.fixture
async def server() -> AsyncIterator[FakeLlm]:
    """Start a scripted endpoint."""
    async with fake_llm() as running:
        yield running


@pytest.mark.parametrize("open_model", MODELS)
async def test_a_streamed_answer_is_the_plain_one_and_costs_the_same(server: FakeLlm, open_model: Opener) -> None:
    heard = Heard()
    async with open_model(server) as model:
        plain, streamed = await model.generate_reply(PROMPT), await model.generate_reply(PROMPT, heard)
    assert streamed == plain
    assert streamed.value is not None
    assert Answer.model_validate_json(heard.text) == streamed.value
    assert len(heard.pieces) > 3
    assert heard.again == []
    first, second = server.requests
    assert second.pop("stream") is True
    assert second.pop("stream_options") == {"include_usage": True}
    assert first.get("stream") in (None, False)
    assert {**first, "stream": None} == {**second, "stream": None}


@pytest.mark.parametrize("open_model", MODELS)
async def test_a_lost_connection_begins_the_answer_again(server: FakeLlm, open_model: Opener) -> None:
    heard = Heard()
    server.faults.append(Fault.BROKEN)
    async with open_model(server) as model:
        reply = await model.generate_reply(PROMPT, heard)
    assert reply.value is not None
    assert heard.again == [INTERRUPTED]
    assert Answer.model_validate_json(heard.text) == reply.value


@pytest.mark.parametrize("fault", [Fault.RATE_LIMITED, Fault.SERVER_ERROR])
async def test_a_refusal_before_the_first_word_is_tried_again_in_silence(server: FakeLlm, fault: Fault) -> None:
    heard = Heard()
    server.faults.extend([fault, fault])
    async with plain_model(server) as model:
        assert (await model.generate_reply(PROMPT, heard)).value is not None
    assert heard.again == []
    assert len(server.requests) == 3


@pytest.mark.long
@pytest.mark.parametrize("fault", [Fault.BROKEN, Fault.SERVER_ERROR])
async def test_a_fault_that_stays_is_an_error(server: FakeLlm, fault: Fault) -> None:
    server.broken = fault
    async with plain_model(server) as model:
        with pytest.raises(ChatModelUnavailable):
            await model.generate_reply(PROMPT, Heard())
    assert len(server.requests) == 3


@pytest.mark.parametrize("fault", [Fault.GARBAGE, Fault.OTHER, Fault.REFUSED, Fault.PACKED, Fault.ENDLESS])
async def test_what_is_no_stream_is_not_asked_for_again(server: FakeLlm, fault: Fault) -> None:
    server.faults.append(fault)
    async with plain_model(server) as model:
        with pytest.raises(UnusableAnswer):
            await model.generate_reply(PROMPT, Heard())
        assert len(server.requests) == 1
        assert server.sent < 4 * MAX_ANSWER + (8 << 20), "what sockets hold"
        assert (await model.generate_reply(PROMPT, Heard())).value is not None


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.PROSE, Fault.INVALID_JSON, Fault.OTHER_JSON, Fault.EMPTY])
async def test_a_stream_of_another_shape_is_none_but_has_its_price(server: FakeLlm, fault: Fault) -> None:
    server.faults.append(fault)
    async with plain_model(server) as model:
        reply = await model.generate_reply(PROMPT, Heard())
    assert reply.value is None
    assert reply.usage.input_tokens > 0
    assert len(server.requests) == 1


@pytest.mark.filterwarnings("ignore:Failed to extract usage")
async def test_the_reported_tokens_of_a_stream_are_limited_too(server: FakeLlm) -> None:
    server.faults.extend([Fault.NO_USAGE, Fault.MUCH_USAGE, Fault.LESS_USAGE])
    async with plain_model(server) as model:
        none, much, less = [(await model.generate_reply(PROMPT, Heard())).usage for _ in range(3)]
    assert none.input_tokens == less.input_tokens == estimate_tokens(PROMPT.rules, PROMPT.question.text)
    assert much.output_tokens == PROMPT.max_tokens
    assert none.output_tokens > 10


@pytest.mark.long
async def test_the_time_out_bounds_a_stream_that_stops(server: FakeLlm) -> None:
    heard = Heard()
    server.faults.append(Fault.STALLED)
    async with plain_model(server, timeout_s=1.0) as model:
        with pytest.raises(ChatModelUnavailable, match="did not answer within 1 s"):
            await model.generate_reply(PROMPT, heard)
    assert heard.text, "it had begun"


async def test_a_cancelled_stream_ends_the_request(server: FakeLlm) -> None:
    heard = Heard()
    server.faults.append(Fault.STALLED)
    async with plain_model(server) as model:
        asking = asyncio.create_task(model.generate_reply(PROMPT, heard))
        await asyncio.wait_for(heard.began.wait(), 30)
        asking.cancel()
        assert isinstance((await asyncio.gather(asking, return_exceptions=True))[0], asyncio.CancelledError)
        assert (await model.generate_reply(PROMPT, Heard())).value is not None


async def test_no_model_has_no_stream() -> None:
    heard = Heard()
    for model in (NullChatModel(), MeasuredChatModel(NullChatModel(), Metrics("0"))):
        with pytest.raises(NoChatModel):
            await model.generate_reply(PROMPT, heard)
    assert not heard.pieces


async def test_a_streamed_call_is_measured(server: FakeLlm) -> None:
    metrics = Metrics("0")
    async with plain_model(server) as inner:
        usage = (await MeasuredChatModel(inner, metrics).generate_reply(PROMPT, Heard())).usage
    text = metrics.render_text().decode()
    assert 'mnema_llm_duration_seconds_count{prompt="same_fact.v3"} 1.0' in text
    assert f'mnema_llm_tokens_total{{of="output",prompt="same_fact.v3"}} {float(usage.output_tokens)}' in text
