"""Chat models of any endpoint with OpenAI's POST /chat/completions and JSON schemas, called through pydantic-ai.

The form of the requests to an endpoint is learned from its answers, and kept for a time.
"""

import asyncio
import json
import math
import random
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog
from openai import APIStatusError, OpenAIError
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
    ThinkingPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.settings import ModelSettings

from app.domain.chat.thoughts import strip_thoughts
from app.domain.outages import ChatModelUnavailable, UnusableAnswer
from app.domain.reflection.model_usage import Usage, estimate_tokens
from app.domain.text_rules import replace_halves
from app.ports import Answer, AnswerListener, Prompt, Reply
from app.providers.bounded_http import REFUSED, is_too_long
from app.providers.chat_models.answers import build_reader
from app.providers.chat_models.model_endpoint import MAX_ANSWER, ModelEndpoint
from app.providers.chat_models.request_form import RequestForm
from app.providers.chat_models.schema_bounds import build_schema
from app.transactions import refuse_inside_transaction

LONGEST_REST_S: Final = 600.0
KINDS_OF_A_HANG: Final = 2
"""The kinds of calls that must time out, without an answer in between, until no call at all is made for a while."""
log = structlog.get_logger(__name__)
RELEARN_S: Final = 6 * 3600.0
"""Seconds after which what was learned of an endpoint is forgotten, because another server may stand behind it."""


class LearnedForm:
    """The form in which an endpoint is asked, from `first` on.

    A form that follows from a refusal is kept: the endpoint takes no other. One that follows from an unreadable answer
    is tried. It is kept if the next answer is readable; if not, the former one comes back, since the form was not the
    reason, and the tried one is not tried again.
    """

    def __init__(self, model: str, first: RequestForm) -> None:
        self._model = model
        self._first = first
        self._form = first
        self._former: RequestForm | None = None
        self._useless: set[tuple[bool, int]] = set()
        self._forgets_at = math.inf

    @property
    def form(self) -> RequestForm:
        """The form of the next request."""
        if time.monotonic() >= self._forgets_at:
            self._form = self._first
            self._former = None
            self._useless.clear()
            self._forgets_at = math.inf
        return self._form

    def keep(self, form: RequestForm) -> None:
        """Keep the form that follows from a refusal. A form on trial stays on trial."""
        if self._former is not None:
            tells, thinks = self._former.tells_schema, self._former.thinking_tokens
            self._former = replace(form, tells_schema=tells, thinking_tokens=thinks)
        self._change(form)

    def note_readable(self, used: RequestForm) -> None:
        """Keep the form on trial if the readable answer is its own."""
        if used == self._form:
            self._former = None

    def note_unreadable(self, used: RequestForm, other: RequestForm) -> None:
        """Try `other` after an unreadable answer, unless it was tried in vain; then return to the former form."""
        if used != self._form:
            return  # another call has learned something meanwhile
        if other != used and _trait(other) not in self._useless:
            self._former = self._former or used
            if self._former != used:
                self._useless.add(_trait(used))
            self._change(other)
        elif self._former is not None:
            self._useless.add(_trait(used))
            former, self._former = self._former, None
            self._change(former)

    def _change(self, form: RequestForm) -> None:
        if form != self._form:
            self._form = form
            self._forgets_at = time.monotonic() + RELEARN_S
            log.info("chat_model_request_form", model=self._model, form=form.describe())


def _trait(form: RequestForm) -> tuple[bool, int]:
    """Return what unreadable answers change of a form."""
    return form.tells_schema, form.thinking_tokens


@dataclass(slots=True)
class _Rest:
    """A rest of `next_s` seconds after the next timeout; no call is made before `until` (monotonic)."""

    next_s: float
    until: float = 0.0

    def begin(self) -> None:
        """Rest, the next time for twice as long."""
        self.until = time.monotonic() + self.next_s
        self.next_s = min(LONGEST_REST_S, 2 * self.next_s)


class CallRests:
    """The rests of one model. A kind of call, such as `multi_fact`, rests after its own timeout.

    One long answer says nothing of other prompts. If calls of KINDS_OF_A_HANG kinds time out in a row, all calls rest.
    The first rest takes `first_s` seconds, each further one twice as long, up to LONGEST_REST_S.
    """

    def __init__(self, first_s: float) -> None:
        self._first_s = first_s
        self._all = _Rest(first_s)
        self._kinds: dict[str, _Rest] = {}
        self._timed_out: set[str] = set()

    def is_resting(self, kind: str) -> bool:
        """Tell whether no call of this kind shall be made now."""
        rest = self._kinds.get(kind)
        return time.monotonic() < max(self._all.until, 0.0 if rest is None else rest.until)

    def note_timeout(self, kind: str) -> None:
        """Begin the rest after a timeout."""
        self._kinds.setdefault(kind, _Rest(self._first_s)).begin()
        self._timed_out.add(kind)
        if len(self._timed_out) >= KINDS_OF_A_HANG:
            self._all.begin()

    def note_answer(self, kind: str) -> None:
        """End the rests of this kind and of all calls: the endpoint answers."""
        self._kinds.pop(kind, None)
        self._timed_out.clear()
        self._all = _Rest(self._first_s)


TRIES = 3
FIRST_WAIT_S = 0.5
INTERRUPTED = "interrupted"
DEFAULT_FORM = RequestForm()
NO_TAGS = (secrets.token_hex(), secrets.token_hex())
"""Tags that no text has. pydantic-ai splits a text at its tags in quadratic time, and drops a tag without its end."""
TEMPLATE_TOKENS = 500
"""More tokens than a server adds to a request for its template and the names of roles."""


class OpenAIModel:
    """A ChatModel over HTTP. It retries lost connections, 408, 429 and 5xx up to TRIES times in all.

    A parameter that the endpoint refuses is left out at once, and in later calls (`LearnedForm`).
    Other errors fail at once: with UnusableAnswer if the question may have caused them, else ChatModelUnavailable.

    `timeout_s` bounds a call with all its retries; a longer wait that the endpoint asks for is not granted. After a
    timeout, calls fail at once for a while (`CallRests`).
    """

    is_available = True

    def __init__(
        self, endpoint: ModelEndpoint, model: str, timeout_s: float = 60.0, form: RequestForm = DEFAULT_FORM
    ) -> None:
        self.name = model
        self._timeout_s = timeout_s
        self._client = endpoint.open_client(timeout_s)
        self._body = endpoint.extra_body
        provider = OpenAICompatibleProvider("endpoint", openai_client=self._client)
        self._model = OpenAIChatModel(model, provider=provider, profile=ModelProfile(thinking_tags=NO_TAGS))
        self._learned = LearnedForm(model, form)
        self._works = False
        self._rests = CallRests(timeout_s)

    @property
    def form(self) -> RequestForm:
        """The way in which the endpoint is asked, as far as it is known."""
        return self._learned.form

    @property
    def thinking_tokens(self) -> int:
        """The tokens of an answer beyond its prompt's limit, for a model that thinks first."""
        return self.form.thinking_tokens

    def describe(self) -> str:
        """Return the way in which the endpoint is asked."""
        return self.form.describe()

    async def generate_reply(self, prompt: Prompt[Answer], listener: AnswerListener | None = None) -> Reply[Answer]:
        """Return the model's parsed reply; its answer is None if the text does not fit the schema."""
        refuse_inside_transaction("chat model")
        kind = prompt.version.rpartition(".")[0]
        if self._rests.is_resting(kind):
            raise ChatModelUnavailable("The chat model did not answer in time, and is not called again for a while.")
        unusable = False
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                form, response = await self._request_with_retries(prompt, listener, limit)
            reply = self._read_reply(prompt, form, response)
        except TimeoutError:
            self._rests.note_timeout(kind)
            failure = f"The chat model did not answer within {self._timeout_s:g} s."
        except Exception as error:
            failure = _describe_error(error)
            unusable = _is_unusable_answer(error)
        else:
            self._works = True
            self._rests.note_answer(kind)
            return reply
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

    async def _request_with_retries(
        self, prompt: Prompt[Any], listener: AnswerListener | None, limit: asyncio.Timeout
    ) -> tuple[RequestForm, ModelResponse]:
        form = self.form
        refused: set[RequestForm] = set()
        left = TRIES
        while True:
            request = _Request(prompt, listener, form, self._body)
            try:
                return form, await request.send_to(self._model)
            except ModelAPIError as error:
                refused.add(form)
                other = _learn_from(error, form)
                if other is not None and other not in refused:
                    form = other
                    self._learned.keep(form)
                    continue
                left -= 1
                wait_s = error.retry_after
                if wait_s is None:
                    wait_s = FIRST_WAIT_S * 2 ** (TRIES - 1 - left) * random.uniform(0.5, 1)
                ends = limit.when() or 0.0
                if not left or not _is_transient(error) or asyncio.get_running_loop().time() + wait_s >= ends:
                    raise
            request.begin_again()
            await asyncio.sleep(wait_s)

    def _read_reply(self, prompt: Prompt[Answer], form: RequestForm, response: ModelResponse) -> Reply[Answer]:
        """Return the reply in a response. After an unreadable one, try another form with the next call."""
        text = _text_in(response)
        thoughts = replace_halves("".join(part.content for part in response.parts if isinstance(part, ThinkingPart)))
        reader = build_reader(prompt.answer)
        read = reader.read_answer(text, thoughts)
        usage = _count_usage(prompt, form, response, f"{text}{thoughts}")
        if read.value is not None:
            self._learned.note_readable(form)
            return Reply(read.value, usage, read.is_cut, read.refused)
        is_cut = response.finish_reason == "length"
        other = form
        if is_cut and (thoughts or not strip_thoughts(text)):
            other = form.learn_from_thoughts()
        elif text and not is_cut:
            other = form.learn_from_nonsense()
        self._learned.note_unreadable(form, other)
        return Reply(None, usage, is_cut)


class _Request:
    """One request to the endpoint, which may be sent again."""

    def __init__(
        self, prompt: Prompt[Any], listener: AnswerListener | None, form: RequestForm, extra_body: Mapping[str, Any]
    ) -> None:
        self._listener = listener
        self._was_heard = False
        schema = build_schema(prompt)
        rules = f"{prompt.rules}\n{_tell_schema(schema)}" if form.shows_schema else prompt.rules
        question = prompt.question.text
        self._messages = [
            ModelRequest([SystemPromptPart(rules), UserPromptPart(question)])
            if form.has_system
            else ModelRequest([UserPromptPart(f"{rules}\n\n{question}")])
        ]
        # All parameters go this way, so that none is dropped or renamed by the name of a model.
        body = form.build_body(schema, prompt.max_tokens) | dict(extra_body)
        self._settings = ModelSettings(extra_body=body)

    async def send_to(self, model: OpenAIChatModel) -> ModelResponse:
        """Send the request and return the whole answer. A listener gets it as it arrives."""
        if self._listener is None:
            return await model_request(model, self._messages, model_settings=self._settings, instrument=False)
        async with model_request_stream(
            model, self._messages, model_settings=self._settings, instrument=False
        ) as stream:
            async for event in stream:
                if piece := _text_of(event):
                    self._was_heard = True
                    self._listener.add_text(replace_halves(piece))
            response = stream.get()
        if not self._was_heard and (text := _text_in(response)):  # the arguments of a call
            self._listener.add_text(text)
        return response

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


def _text_in(response: ModelResponse) -> str:
    """Return the answer's text, or the arguments of the call that the model made in place of it.

    An endpoint can write half a character in JSON, or a whole one in two pieces. Here it is whole, or the replacement.
    """
    # pydantic-ai replaces arguments that are no strict JSON, which the reader of answers may understand.
    calls = [
        part.args if isinstance(part.args, str) else part.args_as_json_str()
        for part in response.parts
        if isinstance(part, ToolCallPart)
    ]
    return replace_halves("\n".join(calls) or response.text or "")


def _tell_schema(schema: Mapping[str, Any]) -> str:
    return f"Answer with nothing but JSON of this schema: {json.dumps(schema, separators=(',', ':'))}"


def _learn_from(error: ModelAPIError, form: RequestForm) -> RequestForm | None:
    if not isinstance(error, ModelHTTPError):
        return None
    return form.learn_from_refusal(error.status_code, str(error.body))


def _count_usage(prompt: Prompt[Any], form: RequestForm, response: ModelResponse, text: str) -> Usage:
    """Return the tokens that the endpoint reports, or an estimate if it reports none."""
    sent = prompt.rules, prompt.question.text
    schema = _tell_schema(build_schema(prompt))
    most_input = sum(len(part.encode()) for part in (*sent, schema)) + TEMPLATE_TOKENS  # no token has less than a byte
    most_output = prompt.max_tokens + form.thinking_tokens
    return Usage(
        _bounded_count(response.usage.input_tokens, most_input) or estimate_tokens(*sent),
        _bounded_count(response.usage.output_tokens, most_output) or min(estimate_tokens(text), most_output),
    )


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
