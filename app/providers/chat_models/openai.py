"""Chat models of any endpoint that speaks OpenAI's POST /chat/completions with JSON schemas, by pydantic-ai."""

import asyncio
import random
import time
from typing import Any

from openai import APIStatusError, AsyncOpenAI, OpenAIError
from pydantic import TypeAdapter, ValidationError
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import ModelAPIError, ModelConnectionError, ModelHTTPError
from pydantic_ai.messages import ModelRequest, ModelResponse, SystemPromptPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.settings import ModelSettings

from app.domain.outages import ChatModelUnavailable, UnusableAnswer
from app.domain.reflection.model_usage import Usage, estimate_tokens
from app.ports import Answer, Prompt, Reply, refuse_inside_transaction
from app.providers.bounded_http import BoundedClient, is_too_long

TRIES = 3
FIRST_WAIT_S = 0.5
LONGEST_REST_S = 600.0
OPENAI = "https://api.openai.com"
OUTPUT = "answer"
MAX_ANSWER = 4 << 20
"""Bytes. What we ask for takes some KB; long lists of models take some hundred."""
REFUSED = (400, 413, 422)
"""Statuses that may tell of the question; all others tell of the endpoint."""
TEMPLATE_TOKENS = 500
"""More than a server adds to what is sent: its template, and the names of roles."""


class OpenAIModel:
    """Lost connections, 408, 429 and 5xx are tried again, thrice in all; everything else fails at once.

    Where something came back that may have to do with the question, with UnusableAnswer.

    `timeout_s` bounds a call, retries and their waits included: what the endpoint asks to wait beyond it is not waited.
    After one that ran out, calls fail at once for as long, and twice as long each time it happens again, up to
    LONGEST_REST_S: an endpoint that hangs must not hold every worker.
    """

    is_available = True

    def __init__(self, base_url: str, api_key: str, model: str, timeout_s: float = 60.0) -> None:
        self.name = model
        self._timeout_s = timeout_s
        # The client refuses an empty key, which is what an endpoint without authentication has.
        http = BoundedClient(MAX_ANSWER)
        self._client = AsyncOpenAI(
            api_key=api_key or "none", base_url=base_url, timeout=timeout_s, max_retries=0, http_client=http
        )
        own = base_url.startswith(OPENAI)
        provider = (
            OpenAIProvider(openai_client=self._client)
            if own
            else OpenAICompatibleProvider("endpoint", openai_client=self._client)
        )
        # max_tokens is what every other endpoint knows
        profile: Any = None if own else {"openai_chat_supports_max_completion_tokens": False}
        self._model = OpenAIChatModel(model, provider=provider, profile=profile)
        self._works = False
        self._rest_s = timeout_s
        self._rests_until = 0.0

    async def generate_reply(self, prompt: Prompt[Answer]) -> Reply[Answer]:
        """As ChatModel has it."""
        refuse_inside_transaction("chat model")
        if time.monotonic() < self._rests_until:
            raise ChatModelUnavailable("The chat model did not answer in time, and is left alone for a while.")
        unusable = False
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                response = await self._request_with_retries(prompt, limit)
        except TimeoutError:
            self._rests_until = time.monotonic() + self._rest_s
            self._rest_s = min(LONGEST_REST_S, 2 * self._rest_s)
            failure = f"The chat model did not answer within {self._timeout_s:g} s."
        except Exception as error:
            failure, unusable = _describe_error(error), _is_unusable_answer(error)
        else:
            self._works, self._rest_s = True, self._timeout_s
            return _parse_reply(prompt, response)
        self._works = False
        # Outside `except`: the client's error may carry the key or a text, so it is not even this one's context.
        raise UnusableAnswer(failure) if unusable else ChatModelUnavailable(failure)

    async def check_health(self) -> None:
        """As ChatModel has it: unless the last call was answered, the endpoint is asked which models it has."""
        if self._works:
            return
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._client.models.list()
        except TimeoutError:
            failure = f"The chat model did not answer within {self._timeout_s:g} s."
        except APIStatusError as error:
            if error.status_code in (404, 405):  # an endpoint without the list
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

    async def _request_with_retries(self, prompt: Prompt[Any], limit: asyncio.Timeout) -> ModelResponse:
        for left in reversed(range(TRIES)):
            try:
                return await self._request_once(prompt)
            except ModelAPIError as error:
                wait_s = error.retry_after
                if wait_s is None:
                    wait_s = FIRST_WAIT_S * 2 ** (TRIES - 1 - left) * random.uniform(0.5, 1)
                ends = limit.when() or 0.0
                if not left or not _is_transient(error) or asyncio.get_running_loop().time() + wait_s >= ends:
                    raise
            await asyncio.sleep(wait_s)
        raise AssertionError("unreachable")

    async def _request_once(self, prompt: Prompt[Any]) -> ModelResponse:
        schema = OutputObjectDefinition(TypeAdapter(prompt.answer).json_schema(), OUTPUT, strict=True)
        return await model_request(
            self._model,
            [ModelRequest([SystemPromptPart(prompt.rules), UserPromptPart(prompt.question)])],
            model_settings=ModelSettings(temperature=0.0, max_tokens=prompt.max_tokens),
            model_request_parameters=ModelRequestParameters(
                output_mode="native", output_object=schema, allow_text_output=True
            ),
            instrument=False,
        )


def _parse_reply(prompt: Prompt[Answer], response: ModelResponse) -> Reply[Answer]:
    text, told = response.text or "", response.usage
    asked = prompt.rules, prompt.question
    schema = str(TypeAdapter(prompt.answer).json_schema())
    most = sum(len(part.encode()) for part in (*asked, schema)) + TEMPLATE_TOKENS  # no token has less than a byte
    usage = Usage(
        _bounded_count(told.input_tokens, most) or estimate_tokens(*asked),  # some endpoints count nothing
        _bounded_count(told.output_tokens, prompt.max_tokens) or min(estimate_tokens(text), prompt.max_tokens),
    )
    try:
        return Reply(TypeAdapter(prompt.answer).validate_json(text), usage)
    except ValidationError:
        return Reply(None, usage)


def _bounded_count(told: int, most: int) -> int:
    """What an endpoint says it took, as far as that can be: it is paid for out of the tenant's tokens."""
    return max(0, min(told, most))


def _is_unusable_answer(error: Exception) -> bool:
    """Whether something came back that may have to do with the question."""
    if isinstance(error, ModelHTTPError):
        return error.status_code in REFUSED
    return is_too_long(error) or not isinstance(error, ModelAPIError | OpenAIError)


def _is_transient(error: ModelAPIError) -> bool:
    if isinstance(error, ModelHTTPError):
        return error.status_code in (408, 429) or error.status_code >= 500
    return isinstance(error, ModelConnectionError) and not is_too_long(error)


def _describe_error(error: Exception) -> str:
    """A message without secrets: what came back is never quoted."""
    if isinstance(error, ModelHTTPError | APIStatusError):
        return f"The chat model's endpoint answered HTTP {error.status_code}."
    if is_too_long(error):
        return f"The chat model's endpoint answered more than {MAX_ANSWER} bytes, or packed ones."
    if isinstance(error, ModelConnectionError | OpenAIError):
        return "The chat model's endpoint cannot be reached."
    return f"The answer of the chat model's endpoint cannot be used ({type(error).__name__})."
