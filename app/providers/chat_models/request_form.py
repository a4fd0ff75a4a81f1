"""The form of the requests to a chat model: how it is asked for JSON, and the parameters that it takes.

Nobody can know it from a model's name. It is learned from the errors of the endpoint, which cost no tokens, and
from answers that ignore the shape asked for.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from app.providers.chat_models.schema_bounds import drop_bounds

Format: TypeAlias = Literal["json_schema", "json_object", "tool", "text"]
LengthParameter: TypeAlias = Literal["max_tokens", "max_completion_tokens"]
FORMATS: Final[tuple[Format, ...]] = ("json_schema", "json_object", "tool", "text")
"""The ways to ask for JSON, the strictest first."""
REFUSALS: Final = frozenset({400, 404, 405, 422, 500, 501})
"""Statuses with which an endpoint refuses a parameter. Some gateways pass it on as an error of their own."""
TOOL: Final = "answer"
THINKING_TOKENS: Final = (2000, 8000)
"""The tokens for thoughts before an answer, in turn, once a model has spent a whole answer on them."""
MAX_TOLD: Final = 4000
"""The characters of an error that are read."""
STOPS: Final = ("\n\n\n\n", "\t\t\t\t\t\t\t\t", " " * 64, "<|im_start|>")
"""Texts at which an answer ends: no answer has them, but a model that no longer answers writes them again and again."""
_NO_WORD: Final = re.compile(r"[^a-z0-9]+")
_UNKNOWN: Final = re.compile(
    r"unsupported|not supported|not support|unrecognized|unknown|extra|not permitted|forbidden"
)
_STOP: Final = re.compile(r"\bstop\b|stop ?sequences?|stopsequences?")
_SYSTEM: Final = re.compile(
    r"system (?:role|message|prompt|instruction)|role does not support system|roles must alternate"
)
_BOUND_WORDS: Final = re.compile(r"maxitems|maxlength|minimum|maximum value|grammar|invalid schema|xgrammar|repetition")
_FORMAT_WORDS: Final = re.compile(
    r"response format|json schema|json object|json mode|json validate failed|structured output|guided|grammar"
    r"|requested parameters|additionalproperties|output format"
)
_TOOL_WORDS: Final = re.compile(r"\btools?\b|tool choice|function|requested parameters")


@dataclass(frozen=True, slots=True)
class RequestForm:
    """The form of the requests to an endpoint.

    - `format`: the way to ask for JSON; `has_bounds`: the schema sent bounds lists and texts.
    - `tells_schema`: the rules have the schema too, because a model ignored it elsewhere. All formats but `json_schema`
      and `tool` need it.
    - `length_parameter`: the name of the limit of an answer; `thinking_tokens` are added to it.
    - `has_stop`: the answer ends at STOPS.
    - `has_system`: the rules are a system message; else they stand before the question.
    """

    format: Format = "json_schema"
    has_bounds: bool = True
    tells_schema: bool = False
    length_parameter: LengthParameter = "max_tokens"
    thinking_tokens: int = 0
    has_temperature: bool = True
    has_stop: bool = True
    has_system: bool = True
    reasoning_effort: str = ""

    def describe(self) -> str:
        """Return the form in some words."""
        parts: list[str] = [self.format, self.length_parameter]
        parts += ["schema in the rules"] if self.tells_schema and self.format in ("json_schema", "tool") else []
        parts += ["no bounds in the schema"] if self.format == "json_schema" and not self.has_bounds else []
        parts += [] if self.has_temperature else ["no temperature"]
        parts += [] if self.has_stop else ["no stop sequences"]
        parts += [] if self.has_system else ["no system message"]
        parts += [f"reasoning effort {self.reasoning_effort}"] if self.reasoning_effort else []
        parts += [f"{self.thinking_tokens} tokens for thoughts"] if self.thinking_tokens else []
        return ", ".join(parts)

    @property
    def shows_schema(self) -> bool:
        """True if the rules must have the schema."""
        return self.tells_schema or self.format in ("json_object", "text")

    def build_body(self, schema: Mapping[str, Any], max_tokens: int) -> dict[str, Any]:
        """Return the fields of a request besides the model and the messages."""
        body: dict[str, Any] = {self.length_parameter: max_tokens + self.thinking_tokens}
        if self.has_temperature:
            body["temperature"] = 0
        if self.has_stop:
            body["stop"] = list(STOPS)
        if self.reasoning_effort:
            body["reasoning_effort"] = self.reasoning_effort
        shape = schema if self.has_bounds else drop_bounds(schema)
        match self.format:
            case "json_schema":
                named = {"name": TOOL, "strict": True, "schema": shape}
                body["response_format"] = {"type": "json_schema", "json_schema": named}
            case "json_object":
                body["response_format"] = {"type": "json_object"}
            case "tool":
                function = {"name": TOOL, "description": "Give the answer.", "parameters": shape}
                body["tools"] = [{"type": "function", "function": function}]
                body["tool_choice"] = {"type": "function", "function": {"name": TOOL}}
            case "text":
                pass
        return body

    def learn_from_refusal(self, status: int, told: str) -> "RequestForm | None":
        """Return the form without what an error names, None if it names nothing that could be left out."""
        if status not in REFUSALS:
            return None
        words = _NO_WORD.sub(" ", told[:MAX_TOLD].lower())
        if (parameter := self._other_length_parameter(words)) is not None:
            return replace(self, length_parameter=parameter)
        if self.has_temperature and "temperature" in words:
            return replace(self, has_temperature=False)
        if self.has_stop and _STOP.search(words):
            return replace(self, has_stop=False)
        if self.reasoning_effort and re.search(r"reasoning ?effort", words):
            return replace(self, reasoning_effort="")
        if self.has_system and _SYSTEM.search(words):
            return replace(self, has_system=False)
        if self.format == "json_schema" and self.has_bounds and _BOUND_WORDS.search(words):
            return replace(self, has_bounds=False)
        refused = _TOOL_WORDS if self.format == "tool" else _FORMAT_WORDS
        if self.format != "text" and refused.search(words):
            return replace(self, format=FORMATS[FORMATS.index(self.format) + 1])
        return None

    def learn_from_thoughts(self) -> "RequestForm":
        """Return the form with more tokens for thoughts, as long as there is a larger number."""
        more = next((tokens for tokens in THINKING_TOKENS if tokens > self.thinking_tokens), self.thinking_tokens)
        return replace(self, thinking_tokens=more)

    def learn_from_nonsense(self) -> "RequestForm":
        """Return the form that tells the schema in the rules."""
        return replace(self, tells_schema=True)

    def _other_length_parameter(self, words: str) -> LengthParameter | None:
        if self.length_parameter == "max_tokens":
            is_refused = "max completion tokens" in words or ("max tokens" in words and _UNKNOWN.search(words))
            return "max_completion_tokens" if is_refused else None
        return "max_tokens" if "max completion tokens" in words and _UNKNOWN.search(words) else None
