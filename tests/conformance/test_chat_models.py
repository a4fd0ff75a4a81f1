"""A chat endpoint and its faults, over real sockets; and the absence of a chat model."""

import asyncio
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from app.domain.outages import ChatModelUnavailable, NoChatModel, UnusableAnswer
from app.domain.reflection.model_usage import estimate_tokens
from app.domain.rendering.model_text import ModelText
from app.ports import Prompt
from app.prompts.same_fact import Answer, read_same_fact, same_fact_prompt
from app.providers.api_keys import KeyFile
from app.providers.chat_models import NullChatModel
from app.providers.chat_models.model_endpoint import MAX_ANSWER, ModelEndpoint
from app.providers.chat_models.openai import OpenAIModel
from app.providers.chat_models.request_form import RequestForm
from app.providers.measured import MeasuredChatModel
from app.providers.metrics import Metrics
from app.transactions import in_transaction
from tests.fake_llm import FakeLlm, Fault, fake_llm
from tests.fake_llm.endpoints import BEHAVIOURS
from tests.fake_llm.wire import tokens
from tests.loopback import loopback

KEY = "sk-a-secret-that-must-not-leak"
PAIRS = [
    ("The user keeps three hives of bees.", "Three hives of bees are kept by the user."),
    ("The user's son is 3.", "The user's son is 4."),
    ("The user plays the cello.", "The user lives in Porto."),
]
PROMPT: Prompt[Answer] = same_fact_prompt(PAIRS)


@pytest.fixture
async def server() -> AsyncIterator[FakeLlm]:
    """Start a scripted endpoint."""
    async with fake_llm() as running:
        yield running


def client(server: FakeLlm, *, timeout_s: float = 30.0, key: str = KEY) -> OpenAIModel:
    """Return a model of `server`."""
    return OpenAIModel(ModelEndpoint(base_url=server.base_url, api_key=key), "any-model", timeout_s)


@pytest.fixture
async def remote(server: FakeLlm) -> AsyncIterator[OpenAIModel]:
    """Return a model of the scripted endpoint."""
    model = client(server)
    yield model
    await model.close()


async def test_an_answer_in_the_shape_asked_for_and_what_it_cost(server: FakeLlm, remote: OpenAIModel) -> None:
    reply = await remote.generate_reply(PROMPT)
    assert reply.value is not None
    assert read_same_fact(PAIRS, reply.value).value == {0: "same", 1: "new_value", 2: "different"}
    [asked], [body] = server.asked, server.requests
    assert asked.version == PROMPT.version
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("any-model", 0, PROMPT.max_tokens)
    assert body["response_format"]["type"] == "json_schema"
    assert [message["content"] for message in body["messages"]] == [PROMPT.rules, PROMPT.question.text]
    assert reply.usage.input_tokens == tokens(body)
    assert reply.usage.output_tokens > 0


async def test_an_endpoint_that_counts_no_tokens_is_counted_for(server: FakeLlm, remote: OpenAIModel) -> None:
    server.faults.append(Fault.NO_USAGE)
    usage = (await remote.generate_reply(PROMPT)).usage
    assert usage.input_tokens == estimate_tokens(PROMPT.rules, PROMPT.question.text)
    assert usage.output_tokens > 10


@pytest.mark.filterwarnings("ignore:Failed to extract usage")
async def test_what_it_says_it_took_counts_as_far_as_that_can_be(server: FakeLlm, remote: OpenAIModel) -> None:
    honest = (await remote.generate_reply(PROMPT)).usage
    server.faults.append(Fault.MUCH_USAGE)
    most = (await remote.generate_reply(PROMPT)).usage
    assert most.output_tokens == PROMPT.max_tokens
    assert honest.input_tokens < most.input_tokens < len(str(server.requests[0]).encode()) + 1000
    server.faults.append(Fault.LESS_USAGE)
    assert (await remote.generate_reply(PROMPT)).usage.input_tokens == estimate_tokens(
        PROMPT.rules, PROMPT.question.text
    )


@pytest.mark.parametrize("fault", [Fault.ENDLESS, Fault.PACKED])
async def test_an_answer_is_read_up_to_a_size(server: FakeLlm, remote: OpenAIModel, fault: Fault) -> None:
    server.faults.append(fault)
    with pytest.raises(UnusableAnswer, match=f"more than {MAX_ANSWER} bytes"):
        await remote.generate_reply(PROMPT)
    assert len(server.requests) == 1
    assert server.sent < 4 * MAX_ANSWER + (8 << 20), "what sockets hold"
    assert (await remote.generate_reply(PROMPT)).value is not None


TRANSIENT = [Fault.RATE_LIMITED, Fault.TIMED_OUT, Fault.SERVER_ERROR, Fault.UNAVAILABLE, Fault.CUT]


@pytest.mark.long
@pytest.mark.parametrize("fault", TRANSIENT)
async def test_a_transient_fault_is_tried_again(server: FakeLlm, remote: OpenAIModel, fault: Fault) -> None:
    server.faults.extend([fault, fault])
    assert (await remote.generate_reply(PROMPT)).value is not None
    assert len(server.requests) == 3
    server.faults.extend([fault] * 3)
    told = "cannot be reached" if fault is Fault.CUT else rf"answered HTTP {fault.value}\.$"
    with pytest.raises(ChatModelUnavailable, match=told):
        await remote.generate_reply(PROMPT)
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault.NO_SUCH_MODEL, "answered HTTP 404"),
        (Fault.RATE_LIMITED_FOR_A_MINUTE, "answered HTTP 429"),
        (Fault.GARBAGE, "cannot be used"),
        (Fault.OTHER, "cannot be used"),
        (Fault.REFUSED, "answered HTTP 400"),
    ],
)
async def test_what_is_no_answer_is_not_asked_for_again(
    server: FakeLlm, remote: OpenAIModel, fault: Fault, message: str
) -> None:
    server.faults.append(fault)
    with pytest.raises(ChatModelUnavailable, match=message):
        await remote.generate_reply(PROMPT)
    assert len(server.requests) == 1
    assert (await remote.generate_reply(PROMPT)).value is not None


@pytest.mark.parametrize("fault", [Fault.PROSE, Fault.INVALID_JSON, Fault.OTHER_JSON, Fault.EMPTY, Fault.REFUSAL])
async def test_an_answer_of_another_shape_is_none_but_has_its_price(
    server: FakeLlm, remote: OpenAIModel, fault: Fault
) -> None:
    server.faults.append(fault)
    reply = await remote.generate_reply(PROMPT)
    assert reply.value is None
    assert reply.usage.input_tokens > 0
    assert len(server.requests) == 1


async def test_a_refusal_shows_no_secret(server: FakeLlm, remote: OpenAIModel) -> None:
    server.faults.append(Fault.UNAUTHORISED)
    private = "".join(("Maya", "'s diary is red."))  # in two pieces, because a traceback shows this line
    with pytest.raises(ChatModelUnavailable) as caught:
        await remote.generate_reply(same_fact_prompt([(private, private)]))
    assert len(server.requests) == 1
    shown = "".join(traceback.format_exception(caught.value, chain=True)) + repr(caught.value.__context__)
    assert "HTTP 401" in shown
    assert not any(secret in shown for secret in (KEY, "wrong key", private))


@pytest.mark.parametrize("key", ["", KEY])
async def test_the_key_is_a_bearer_token(server: FakeLlm, key: str) -> None:
    model = client(server, key=key)
    await model.generate_reply(PROMPT)
    assert server.keys == {f"Bearer {key or 'none'}"}
    await model.close()


@pytest.mark.long
async def test_the_time_out_bounds_a_call(server: FakeLlm) -> None:
    model = client(server, timeout_s=1.0)
    server.faults.append(Fault.HANG)
    with pytest.raises(ChatModelUnavailable, match=r"did not answer within 1 s"):
        await model.generate_reply(PROMPT)
    assert len(server.requests) == 1
    await model.close()


@pytest.mark.long
async def test_nobody_listens() -> None:
    async with fake_llm() as gone:
        model = client(gone)
    with pytest.raises(ChatModelUnavailable, match="cannot be reached"):
        await model.generate_reply(PROMPT)
    with pytest.raises(ChatModelUnavailable, match="cannot be reached"):
        await model.check_health()
    await model.close()


async def test_never_inside_a_transaction(server: FakeLlm, remote: OpenAIModel) -> None:
    token = in_transaction.set(True)
    try:
        for model in (remote, NullChatModel(), MeasuredChatModel(remote, Metrics("0"))):
            with pytest.raises(RuntimeError, match="inside a database transaction"):
                await model.generate_reply(PROMPT)
    finally:
        in_transaction.reset(token)
    assert not server.requests


async def test_a_check_costs_no_tokens_and_is_not_made_where_a_call_was_answered(
    server: FakeLlm, remote: OpenAIModel
) -> None:
    server.faults.append(Fault.UNAUTHORISED)
    with pytest.raises(ChatModelUnavailable, match="HTTP 401"):
        await remote.check_health()
    server.faults.append(Fault.NO_SUCH_MODEL)  # an endpoint that has no list of models
    await remote.check_health()
    await remote.check_health()
    assert not server.requests
    await remote.generate_reply(PROMPT)
    server.broken = Fault.UNAVAILABLE
    await remote.check_health()
    with pytest.raises(ChatModelUnavailable):
        await remote.generate_reply(PROMPT)
    with pytest.raises(ChatModelUnavailable, match="HTTP 503"):
        await remote.check_health()


async def test_no_model_says_so() -> None:
    model = NullChatModel()
    await model.check_health()
    assert not model.is_available
    with pytest.raises(NoChatModel, match="set MNEMA_LLM"):
        await model.generate_reply(PROMPT)
    await model.close()


async def test_calls_are_counted_by_prompt(server: FakeLlm, remote: OpenAIModel) -> None:
    metrics = Metrics("0")
    model = MeasuredChatModel(remote, metrics)
    usage = (await model.generate_reply(PROMPT)).usage
    server.faults.append(Fault.UNAUTHORISED)
    with pytest.raises(ChatModelUnavailable):
        await model.generate_reply(PROMPT)
    text = metrics.render_text().decode()
    assert 'mnema_llm_duration_seconds_count{prompt="same_fact.v3"} 2.0' in text
    assert 'mnema_llm_failures_total{prompt="same_fact.v3"} 1.0' in text
    assert f'mnema_llm_tokens_total{{of="input",prompt="same_fact.v3"}} {float(usage.input_tokens)}' in text


async def test_many_calls_at_once(server: FakeLlm, remote: OpenAIModel) -> None:
    replies = await asyncio.gather(*(remote.generate_reply(PROMPT) for _ in range(20)))
    assert all(reply.value for reply in replies)
    assert len(server.requests) == 20


async def test_the_scripted_model_fails_a_test_whose_prompt_lacks_what_it_must_have() -> None:
    pairs = '[{"id": 0, "older": "a", "newer": "b"}, {"id": 2, "older": "c", "newer": "d"}]'
    broken = Prompt(PROMPT.version, PROMPT.rules + " Or not.", ModelText(f'{{"pairs": {pairs}}}'), Answer, 10_000)

    async def ask_it() -> None:
        async with fake_llm() as server:
            model = client(server)
            await model.generate_reply(broken)
            await model.close()

    with pytest.raises(AssertionError, match=r"rules are not.*max_tokens 10000.*ids are not.*no control"):
        await ask_it()


@asynccontextmanager
async def recorded() -> AsyncIterator[tuple[str, list[Request]]]:
    """Run an endpoint that has no models, on any path, and records requests."""
    seen: list[Request] = []

    async def answer(request: Request) -> JSONResponse:
        seen.append(request)
        return JSONResponse({"data": []})

    async with loopback([Route("/{path:path}", answer)], asyncio.Event()) as url:
        yield url, seen


async def test_the_address_the_key_and_the_headers_of_an_endpoint() -> None:
    async with recorded() as (url, seen):
        address = f"{url}/openai/deployments/d?api-version=2024-10-21"
        endpoint = ModelEndpoint(base_url=address, api_key=KEY, headers={"api-key": "other", "X-Team": "memory"})
        model = OpenAIModel(endpoint, "any-model", 30.0)
        await model.check_health()
        await model.close()
    assert (seen[0].url.path, seen[0].url.query) == ("/openai/deployments/d/models", "api-version=2024-10-21")
    assert [seen[0].headers[name] for name in ("api-key", "x-team")] == ["other", "memory"]
    assert KEY not in repr(endpoint)
    assert "other" not in repr(endpoint)


@pytest.mark.parametrize(("path", "header"), [("/openai/deployments/d", "api-key"), ("/openai/v1", "authorization")])
async def test_azure_gets_the_present_key_in_the_header_of_the_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str, header: str
) -> None:
    file = tmp_path / "key"
    file.write_text("first")
    monkeypatch.setattr("app.providers.chat_models.model_endpoint.AZURE", "127.0.0.1")
    async with recorded() as (url, seen):
        endpoint = ModelEndpoint(base_url=f"{url}{path}", api_key=KeyFile("MNEMA_LLM_API_KEY_FILE", file))
        model = OpenAIModel(endpoint, "any-model", 30.0)
        await model.check_health()
        file.write_text("the second")
        await model.check_health()
        await model.close()
    assert [one.headers[header].removeprefix("Bearer ") for one in seen] == ["first", "the second"]
    assert all(("authorization" in one.headers) == (header == "authorization") for one in seen)


async def test_the_parameters_of_a_request_are_settings(server: FakeLlm) -> None:
    endpoint = ModelEndpoint(base_url=server.base_url, extra_body={"chat_template_kwargs": {"enable_thinking": False}})
    form = RequestForm(length_parameter="max_completion_tokens", reasoning_effort="low")
    model = OpenAIModel(endpoint, "any-model", 30.0, form)
    assert (await model.generate_reply(PROMPT)).value is not None
    await model.close()
    [body] = server.requests
    assert (body["max_completion_tokens"], body["reasoning_effort"]) == (PROMPT.max_tokens, "low")
    assert "max_tokens" not in body
    assert body["chat_template_kwargs"] == {"enable_thinking": False}


async def test_a_model_that_thinks_gets_more_tokens_and_they_are_paid(server: FakeLlm, remote: OpenAIModel) -> None:
    server.behaviour = next(one for one in BEHAVIOURS if one.name == "thoughts take every token of a small limit")
    first = await remote.generate_reply(PROMPT)
    assert (first.value, first.is_cut, first.usage.output_tokens) == (None, True, PROMPT.max_tokens)
    assert remote.thinking_tokens == 2000
    assert (await remote.generate_reply(PROMPT)).value is not None
    assert server.requests[1]["max_tokens"] == PROMPT.max_tokens + 2000
