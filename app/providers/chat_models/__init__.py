"""Chat models behind the `ChatModel` port. A builder imports heavy libraries only for the model it builds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from app.domain.errors import ConfigError
from app.domain.outages import NoChatModel
from app.ports import Answer, AnswerListener, ChatModel, Prompt, Reply
from app.providers.addresses import check_endpoint, is_printable_ascii
from app.providers.api_keys import open_key
from app.providers.chat_models.request_form import RequestForm
from app.transactions import refuse_inside_transaction


class NullChatModel:
    """A ChatModel that is never available."""

    name = ""
    is_available = False
    thinking_tokens = 0

    def describe(self) -> str:
        """Return nothing."""
        return ""

    async def generate_reply(self, prompt: Prompt[Answer], listener: AnswerListener | None = None) -> Reply[Answer]:
        """Raise NoChatModel."""
        refuse_inside_transaction("chat model")
        raise NoChatModel()

    async def check_health(self) -> None:
        """Return: there is nothing to fail."""

    async def close(self) -> None:
        """Return: there is nothing to release."""


ChatModelKind: TypeAlias = Literal["none", "openai"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatModelSettings:
    """The address and the limits of a model.

    `base_url`: the part before /chat/completions. `length_parameter`, `auto`: found out from the endpoint. `headers`
    are added to each request, `extra_body` to each request for an answer.
    """

    kind: ChatModelKind = "none"
    base_url: str = ""
    model: str = ""
    api_key: str = field(default="", repr=False)
    api_key_file: str = ""
    timeout_s: float = 60.0
    length_parameter: Literal["auto", "max_tokens", "max_completion_tokens"] = "auto"
    reasoning_effort: str = ""
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def build_chat_model(settings: ChatModelSettings) -> ChatModel:
    """Return the model that `settings` name, without calling it. Raise ConfigError for invalid settings."""
    if settings.kind == "none":
        return NullChatModel()
    check_endpoint("MNEMA_LLM", "/chat/completions", settings.base_url, settings.api_key)
    if not settings.model:
        raise ConfigError("MNEMA_LLM_MODEL: must be a model of the endpoint")
    if not all(is_printable_ascii(part) and part for header in settings.headers.items() for part in header):
        raise ConfigError("MNEMA_LLM_HEADERS: names and values must be printable ASCII characters only")
    from app.providers.chat_models.model_endpoint import ModelEndpoint
    from app.providers.chat_models.openai import OpenAIModel

    endpoint = ModelEndpoint(
        base_url=settings.base_url,
        api_key=open_key("MNEMA_LLM_API_KEY", settings.api_key, settings.api_key_file),
        headers=settings.headers,
        extra_body=settings.extra_body,
    )
    form = RequestForm(
        length_parameter="max_tokens" if settings.length_parameter == "auto" else settings.length_parameter,
        reasoning_effort=settings.reasoning_effort,
    )
    return OpenAIModel(endpoint, settings.model, settings.timeout_s, form)
