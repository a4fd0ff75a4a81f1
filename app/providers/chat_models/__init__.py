"""Chat models behind the `ChatModel` port. A builder imports heavy libraries only for the model it builds."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from app.domain.errors import ConfigError
from app.ports import ChatModel
from app.providers.addresses import check_endpoint
from app.providers.api_keys import open_key
from app.providers.chat_models.none import NullChatModel

ChatModelKind: TypeAlias = Literal["none", "openai"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatModelSettings:
    """The address and the limits of a model. `base_url`: the part before /chat/completions."""

    kind: ChatModelKind = "none"
    base_url: str = ""
    model: str = ""
    api_key: str = field(default="", repr=False)
    api_key_file: str = ""
    timeout_s: float = 60.0


def build_chat_model(settings: ChatModelSettings) -> ChatModel:
    """Return the model that `settings` name, without calling it. Raise ConfigError for invalid settings."""
    if settings.kind == "none":
        return NullChatModel()
    check_endpoint("MNEMA_LLM", "/chat/completions", settings.base_url, settings.api_key)
    if not settings.model:
        raise ConfigError("MNEMA_LLM_MODEL: must be a model of the endpoint")
    from app.providers.chat_models.openai import OpenAIModel

    key = open_key("MNEMA_LLM_API_KEY", settings.api_key, settings.api_key_file)
    return OpenAIModel(settings.base_url, key, settings.model, settings.timeout_s)
