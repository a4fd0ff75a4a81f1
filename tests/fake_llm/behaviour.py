"""The behaviour of a chat endpoint: the requests that it refuses, and the form of its answers.

The scripted server plays a behaviour with the answers of its scripted model.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Body: TypeAlias = Mapping[str, Any]
Error: TypeAlias = tuple[int, Any]
"""A status, and a message or the whole JSON of an error."""
Wrap: TypeAlias = Callable[[str], str]


@dataclass(frozen=True)
class Spoken:
    """A message of an answer, the reason why it ended, and the tokens that it reports; None for the server's own."""

    message: Mapping[str, Any]
    finish: str | None = "stop"
    usage: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Behaviour:
    """A behaviour. `refuse` returns the error that a request meets, None if it is answered by `speak`.

    `is_readable`: the answers hold what was asked for, perhaps after a refusal or a first answer that is lost.
    """

    server: str
    name: str
    refuse: Callable[[Body], Error | None] = lambda _: None
    speak: Callable[[str, Body], Spoken] = lambda said, _: Spoken({"content": said})
    is_readable: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The server and the behaviour."""
        return f"{self.server}: {self.name}"


def has_format(body: Body, *kinds: str) -> bool:
    """Tell whether a request has a response format of one of these kinds; of any if none is given."""
    kind = (body.get("response_format") or {}).get("type")
    return kind in kinds if kinds else kind not in (None, "text")


def schema_of(body: Body) -> str:
    """Return the schema of a request as JSON; empty if it has none."""
    return json.dumps(
        (body.get("response_format") or {}).get("json_schema", {}).get("schema") or body.get("tools") or ""
    )


def openai_error(message: str, parameter: str | None = None) -> Any:
    """Return an error in the form of OpenAI."""
    code = {"type": "invalid_request_error", "param": parameter, "code": None}
    return {"error": {"message": message} | code}


def refuse_if(test: Callable[[Body], Any], status: int, message: Any) -> Callable[[Body], Error | None]:
    """Return a refusal of the requests that a test finds."""
    told = message if isinstance(message, dict | list) else openai_error(message)
    return lambda body: (status, told) if test(body) else None


def first_of(*refusals: Callable[[Body], Error | None]) -> Callable[[Body], Error | None]:
    """Return the first refusal that applies."""
    return lambda body: next((error for refuse in refusals if (error := refuse(body)) is not None), None)


def wrapped(wrap: Wrap) -> Callable[[str, Body], Spoken]:
    """Return an answer whose text is wrapped."""
    return lambda said, _: Spoken({"content": wrap(said)})


def thinks(*, room: int, field_name: str = "") -> Callable[[str, Body], Spoken]:
    """Return an answer of a model that thinks for `room` tokens first: in the text, or in a field of the message."""

    def speak(said: str, body: Body) -> Spoken:
        most = body.get("max_tokens") or body.get("max_completion_tokens") or 0
        thought = "Let me see what the user says here. "
        if most < room:
            cut = {"content": f"<think>\n{thought}"} if not field_name else {"content": "", field_name: thought}
            return Spoken(cut, "length", {"completion_tokens": most})
        if field_name:
            return Spoken({"content": said, field_name: thought})
        return Spoken({"content": f"<think>\n{thought}\n</think>\n\n{said}"})

    return speak


def ignores_schema(until_told: str) -> Callable[[str, Body], Spoken]:
    """Return words, until the rules have the schema: the server drops the response format without an error."""

    def speak(said: str, body: Body) -> Spoken:
        is_told = any("JSON of this schema" in str(message["content"]) for message in body["messages"])
        return Spoken({"content": f"```json\n{said}\n```" if is_told else until_told})

    return speak


def as_call(said: str, body: Body) -> Spoken:
    """Return the answer as a call of the tool, else as prose."""
    if not body.get("tools"):
        return Spoken({"content": "I would rather describe it in words."})
    call = {"id": "call-1", "type": "function", "function": {"name": "answer", "arguments": said}}
    return Spoken({"content": None, "tool_calls": [call]}, "tool_calls")


def cut_at_end(said: str, _body: Body) -> Spoken:
    """Return an answer that runs on: its items once more, and the beginning of another."""
    answer = json.loads(said)
    name, items = next(((name, part) for name, part in answer.items() if isinstance(part, list) and part), ("", []))
    if not items:
        return Spoken({"content": said})
    head = json.dumps(answer | {name: items})
    at = head.rfind("]", 0, head.rfind("}") + 1)
    return Spoken({"content": head[:at] + ", " + json.dumps(items[0])[:9]}, "length")


def rename_keys(said: str) -> str:
    """Return the answer with names in another case, and its choices too."""
    return said.replace('"text"', '"Text"').replace('"verdict"', '"Verdict"').replace('"NONE"', '"None"')


def numbers_as_strings(said: str) -> str:
    """Return the answer with its integers as strings."""
    return json.dumps(_stringify(json.loads(said)))


def _stringify(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _stringify(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_stringify(part) for part in value]
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def bare_list(said: str) -> str:
    """Return the only field of the answer if it is a list, else the answer."""
    match list(json.loads(said).values()):
        case [list(items)]:
            return json.dumps(items)
        case _:
            return said


def trailing_commas(said: str) -> str:
    """Return the answer with a comma behind each last item."""
    return said.replace("}]", "},]").replace("]}", "],}")


def extra_keys(said: str) -> str:
    """Return the answer with a field that nobody asked for, in it and in its items."""
    return said.replace("{", '{"reasoning": "It says so.", ')


def has_system(body: Body) -> bool:
    """Tell whether a request has a system message."""
    return any(message["role"] == "system" for message in body["messages"])


def refuses_formats(status: int, message: Any, *kinds: str) -> Callable[[Body], Error | None]:
    """Return a refusal of response formats of these kinds, of all if none is given."""
    return refuse_if(lambda body: has_format(body, *kinds), status, message)
