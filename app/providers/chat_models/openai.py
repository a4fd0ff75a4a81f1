"""Chat models of any endpoint with OpenAI's POST /chat/completions and JSON schemas, called through pydantic-ai."""

import asyncio
import random
import time
from typing import Any

from openai import APIStatusError, AsyncOpenAI, OpenAIError
from pydantic import TypeAdapter, ValidationError
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import ModelAPIError, ModelConnectionError, ModelHTTPError
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    SystemPromptPart,
    TextPart,
    TextPartDelta,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.settings import ModelSettings

from app.domain.outages import ChatModelUnavailable, UnusableAnswer
from app.domain.reflection.model_usage import Usage, estimate_tokens
from app.ports import Answer, AnswerListener, Prompt, Reply, refuse_inside_transaction
from app.providers.api_keys import FixedKey, KeySource
from app.providers.bounded_http import BoundedClient, is_too_long

TRIES = 3
FIRST_WAIT_S = 0.5
LONGEST_REST_S = 600.0
OPENAI = "https://api.openai.com"
OUTPUT = "answer"
INTERRUPTED = "interrupted"
MAX_ANSWER = 4 << 20
"""The largest response in bytes. Our answers take a few KB, long lists of models some hundred."""
REFUSED = (400, 413, 422)
"""Statuses that may be caused by the question; all others are the endpoint's fault."""
TEMPLATE_TOKENS = 500
"""More tokens than a server adds to a request for its template and the names of roles."""


class OpenAIModel:
    """A ChatModel over HTTP. It retries lost connections, 408, 429 and 5xx up to TRIES times in all.

    Other errors fail at once: with UnusableAnswer if the question may have caused them, else ChatModelUnavailable.

    `timeout_s` bounds a call with all its retries; a longer wait that the endpoint asks for is not granted. After a
    timeout, calls fail at once for `timeout_s` seconds. The pause doubles with each further timeout, up to
    LONGEST_REST_S, so that an endpoint that hangs does not hold every worker.
    """

    is_available = True

    def __init__(self, base_url: str, api_key: KeySource | str, model: str, timeout_s: float = 60.0) -> None:
        self.name = model
        self._timeout_s = timeout_s
        self._key = FixedKey(api_key) if isinstance(api_key, str) else api_key
        http = BoundedClient(MAX_ANSWER)
        self._client = AsyncOpenAI(
            api_key=self._read_key, base_url=base_url, timeout=timeout_s, max_retries=0, http_client=http
        )
        is_openai = base_url.startswith(OPENAI)
        provider = (
            OpenAIProvider(openai_client=self._client)
            if is_openai
            else OpenAICompatibleProvider("endpoint", openai_client=self._client)
        )
        # max_tokens is the parameter that all other endpoints know
        profile: Any = None if is_openai else {"openai_chat_supports_max_completion_tokens": False}
        self._model = OpenAIChatModel(model, provider=provider, profile=profile)
        self._works = False
        self._rest_s = timeout_s
        self._rests_until = 0.0

    async def generate_reply(self, prompt: Prompt[Answer], listener: AnswerListener | None = None) -> Reply[Answer]:
        """Return the model's parsed reply; its answer is None if the text does not fit the schema."""
        refuse_inside_transaction("chat model")
        if time.monotonic() < self._rests_until:
            raise ChatModelUnavailable("The chat model did not answer in time, and is not called again for a while.")
        unusable = False
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                response = await self._request_with_retries(_Request(prompt, listener), limit)
        except TimeoutError:
            self._rests_until = time.monotonic() + self._rest_s
            self._rest_s = min(LONGEST_REST_S, 2 * self._rest_s)
            failure = f"The chat model did not answer within {self._timeout_s:g} s."
        except Exception as error:
            failure = _describe_error(error)
            unusable = _is_unusable_answer(error)
        else:
            self._works = True
            self._rest_s = self._timeout_s
            return _parse_reply(prompt, response)
        self._works = False
        # Outside `except`: the client's error may carry the key or a text, so it must not become this error's context.
        raise UnusableAnswer(failure) if unusable else ChatModelUnavailable(failure)

    async def check_health(self) -> None:
        """Ask the endpoint for its models, unless the last call succeeded. Raise ChatModelUnavailable."""
        if self._works:
            return
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._client.models.list()
        except TimeoutError:
            failure = f"The chat model did not answer within {self._timeout_s:g} s."
        except APIStatusError as error:
            if error.status_code in (404, 405):  # the endpoint has no list of models
                return
            failure = _describe_error(error)
        except Exception as error:
            failure = _describe_error(error)
        else:
            return
        raise ChatModelUnavailable(failure)

    async def close(self) -> None:
        """Close connections; later calls raise ChatModelUnavailable."""
        await self._client.close()

    async def _read_key(self) -> str:
        # The client refuses an empty key, but an endpoint without authentication has none.
        return self._key.current_key() or "none"

    async def _request_with_retries(self, request: "_Request", limit: asyncio.Timeout) -> ModelResponse:
        for left in reversed(range(TRIES)):
            try:
                return await request.send_to(self._model)
            except ModelAPIError as error:
                wait_s = error.retry_after
                if wait_s is None:
                    wait_s = FIRST_WAIT_S * 2 ** (TRIES - 1 - left) * random.uniform(0.5, 1)
                ends = limit.when() or 0.0
                if not left or not _is_transient(error) or asyncio.get_running_loop().time() + wait_s >= ends:
                    raise
            request.begin_again()
            await asyncio.sleep(wait_s)
        raise AssertionError("unreachable")


class _Request:
    """One request to the endpoint, which may be sent again."""

    def __init__(self, prompt: Prompt[Any], listener: AnswerListener | None) -> None:
        self._listener = listener
        self._was_heard = False
        schema = OutputObjectDefinition(TypeAdapter(prompt.answer).json_schema(), OUTPUT, strict=True)
        self._messages = [ModelRequest([SystemPromptPart(prompt.rules), UserPromptPart(prompt.question.text)])]
        self._settings = ModelSettings(temperature=0.0, max_tokens=prompt.max_tokens)
        self._parameters = ModelRequestParameters(output_mode="native", output_object=schema, allow_text_output=True)

    async def send_to(self, model: OpenAIChatModel) -> ModelResponse:
        """Send the request and return the whole answer. A listener gets it as it arrives."""
        given = (model, self._messages)
        if self._listener is None:
            return await model_request(
                *given, model_settings=self._settings, model_request_parameters=self._parameters, instrument=False
            )
        async with model_request_stream(
            *given, model_settings=self._settings, model_request_parameters=self._parameters, instrument=False
        ) as stream:
            async for event in stream:
                if piece := _text_of(event):
                    self._was_heard = True
                    self._listener.add_text(piece)
            return stream.get()

    def begin_again(self) -> None:
        """Tell the listener, if it heard anything, that the answer begins again."""
        if self._listener is not None and self._was_heard:
            self._was_heard = False
            self._listener.begin_again(INTERRUPTED)


def _text_of(event: object) -> str:
    """Return the text that an event of a stream adds to the answer."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def _parse_reply(prompt: Prompt[Answer], response: ModelResponse) -> Reply[Answer]:
    text = response.text or ""
    reported = response.usage
    sent = prompt.rules, prompt.question.text
    schema = str(TypeAdapter(prompt.answer).json_schema())
    most = sum(len(part.encode()) for part in (*sent, schema)) + TEMPLATE_TOKENS  # no token has less than a byte
    usage = Usage(
        _bounded_count(reported.input_tokens, most) or estimate_tokens(*sent),  # some endpoints report no counts
        _bounded_count(reported.output_tokens, prompt.max_tokens) or min(estimate_tokens(text), prompt.max_tokens),
    )
    try:
        return Reply(TypeAdapter(prompt.answer).validate_json(text), usage)
    except ValidationError:
        return Reply(None, usage)


def _bounded_count(reported: int, most: int) -> int:
    """Limit the count that an endpoint reports to what is possible: the tenant's token budget pays for it."""
    return max(0, min(reported, most))


def _is_unusable_answer(error: Exception) -> bool:
    """Tell whether the question may have caused the error."""
    if isinstance(error, ModelHTTPError):
        return error.status_code in REFUSED
    return is_too_long(error) or not isinstance(error, ModelAPIError | OpenAIError)


def _is_transient(error: ModelAPIError) -> bool:
    if isinstance(error, ModelHTTPError):
        return error.status_code in (408, 429) or error.status_code >= 500
    return isinstance(error, ModelConnectionError) and not is_too_long(error)


def _describe_error(error: Exception) -> str:
    """Return a message without secrets: it never quotes the response."""
    if isinstance(error, ModelHTTPError | APIStatusError):
        return f"The chat model's endpoint answered HTTP {error.status_code}."
    if is_too_long(error):
        return f"The chat model's endpoint answered more than {MAX_ANSWER} bytes, or a compressed response."
    if isinstance(error, ModelConnectionError | OpenAIError):
        return "The chat model's endpoint cannot be reached."
    return f"The answer of the chat model's endpoint cannot be used ({type(error).__name__})."
