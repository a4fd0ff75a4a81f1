"""The reading of a model's text as the answer of a prompt: find the JSON, fit it to the schema, validate each item.

A text's JSON may be fenced, in prose, with trailing commas or comments, or cut off. `json` reads what is valid, also
with raw line breaks in strings. `pyjson5` reads JavaScript's notation and returns what stands before an error. Both are
linear. `json-repair` reads more but is quadratic: 16 KiB can take 12 seconds.

Fitting a value to the schema changes spelling, never content. Extra fields go, names and choices may be in another
case, numbers may be strings, and a list may be bare or its only item. What does not fit is left as it is; validation
refuses it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeAlias, TypeVar

import pyjson5
from pydantic import TypeAdapter, ValidationError

from app.domain.chat.thoughts import strip_thoughts
from app.domain.text_rules import replace_halves

T = TypeVar("T")
MAX_READ: Final = 256 << 10
"""The most characters of a text that are searched for thoughts and for an answer."""
MAX_ANSWERS: Final = 5
"""The most answers of a text that are validated: the last ones."""
INVALID: Final = "invalid_item"
"""The rule that an item of another shape breaks."""
Schema: TypeAlias = Mapping[str, Any]
MAX_ITEMS: Final = 500
"""The most items of a list that are read."""
MAX_WRAPPERS: Final = 3
"""The depth at which an answer may lie in objects around it, such as {"name": …, "arguments": …}."""
MAX_DIGITS: Final = 20
"""The most characters of a number that is written as a string."""
_NOTHING: Final = ("", "none", "null")
MAX_TEXT: Final = 64 << 10
"""The most characters that are parsed: several times the longest answer that a prompt allows."""
MAX_STARTS: Final = 40
"""The most places that are tried as the beginning of a value."""
MAX_DEPTH: Final = 12
_START: Final = re.compile(r"[{\[]")
_DECODER: Final = json.JSONDecoder(strict=False)
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_CLOSERS: Final = ("}", "]", "]}", "}]", "}]}", "]}]}", "}}")


@dataclass(frozen=True, slots=True)
class FoundValue:
    """A value in a text. `is_cut`: an error or the end of the text came before its end; its last part is left out."""

    value: Any
    is_cut: bool = False


def find_json(text: str) -> Iterator[FoundValue]:
    """Yield the objects and arrays in a text, in order. Of a text above MAX_TEXT the beginning is read.

    A value that cannot be read is tried again from the next bracket in it, at most MAX_STARTS times in all. Escapes of
    half a character, which no database stores, become the replacement character.
    """
    for found in _find_values(text):
        try:
            value = _mend_halves(found.value)
        except (ValueError, RecursionError):  # a number of thousands of digits, or too many brackets
            continue
        yield replace(found, value=value)


def _find_values(text: str) -> Iterator[FoundValue]:
    text = _unquote(text.strip().removeprefix("\ufeff")[:MAX_TEXT])
    at = 0
    for _ in range(MAX_STARTS):
        start = _START.search(text, at)
        if start is None:
            return
        at = start.start()
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            found = _read_tolerantly(text[at:])
            at += 1
            if found is None:
                continue
            yield found
            if not found.is_cut:
                return
        else:
            yield FoundValue(value)


def _mend_halves(value: Any) -> Any:
    written = json.dumps(value, ensure_ascii=False)
    whole = replace_halves(written)
    return value if whole is written else json.loads(whole)


def _unquote(text: str) -> str:
    """Return the content of a text that is one JSON string, else the text."""
    if text.startswith('"'):
        try:
            value = _DECODER.decode(text)
        except ValueError:
            return text
        return str(value)
    return text


def _read_tolerantly(text: str) -> FoundValue | None:
    """Return the value at the start of `text`, without the part at which reading it failed."""
    best = None
    for variant in dict.fromkeys((text, _CONTROL.sub(" ", text))):  # a raw line break ends a comment, or a string
        try:
            return FoundValue(pyjson5.decode(variant, MAX_DEPTH, True))
        except pyjson5.Json5EOF as error:
            found = _close(variant) or _drop_last(error.result)
        except pyjson5.Json5DecoderException as error:
            found = _drop_last(error.result)
        if found is not None and (best is None or len(str(found.value)) > len(str(best.value))):
            best = found
    return best


def _close(text: str) -> FoundValue | None:
    """Return the value of a text that ends behind a complete part of it, with the missing brackets added."""
    text = text.rstrip().rstrip(",").rstrip()
    if not text.endswith(("}", "]", '"')):  # the last part may be half of a number or of a word
        return None
    for closer in _CLOSERS:
        try:
            return FoundValue(pyjson5.decode(text + closer, MAX_DEPTH), is_cut=True)
        except pyjson5.Json5DecoderException:
            continue
    return None


def _drop_last(value: Any) -> FoundValue | None:
    """Return the part of a broken value that stands before its last item, or before its last field."""
    if isinstance(value, list) and value:
        return FoundValue(value[:-1], is_cut=True)
    if isinstance(value, dict) and value:
        *_, last = value
        kept = _drop_last(value[last])
        rest = {name: part for name, part in value.items() if name != last}
        return FoundValue(rest if kept is None else rest | {last: kept.value}, is_cut=True)
    return None


def find_answer(value: Any, schema: Schema) -> Mapping[str, Any] | None:
    """Return the object with fields of the answer that `value` is or wraps, None if there is none."""
    names = schema.get("properties", {})
    for _ in range(MAX_WRAPPERS):
        if not isinstance(value, dict):
            return None
        if _has_field(value, names):
            return value
        parts = [part for part in list(value.values())[:MAX_ITEMS] if isinstance(part, dict)]
        value = next((part for part in parts if _has_field(part, names)), parts[0] if parts else None)
    return None


def wrap_items(items: Sequence[Any], schema: Schema) -> Mapping[str, Any] | None:
    """Return bare items as an answer, if the answer is one list."""
    match list(schema.get("properties", {}).items()):
        case [(name, {"type": "array"})]:
            return {name: list(items)}
        case _:
            return None


def fit_answer(value: Mapping[str, Any], schema: Schema) -> Any:
    """Return the answer with the names, the choices and the types of the schema, as far as it has them."""
    return _fit(value, schema, schema.get("$defs", {}))


def _has_field(value: Mapping[str, Any], names: Mapping[str, Any]) -> bool:
    return any(_plain(name) in map(_plain, names) for name in list(value)[:MAX_ITEMS])


def _fit(value: Any, schema: Schema, shapes: Mapping[str, Schema]) -> Any:
    if reference := schema.get("$ref"):
        schema = shapes.get(str(reference).rpartition("/")[2], {})
    if options := schema.get("anyOf"):
        return _fit_option(value, options, shapes)
    if "enum" in schema or "const" in schema:
        return _fit_choice(value, schema.get("enum") or [schema["const"]])
    match schema.get("type"):
        case "object":
            return _fit_object(value, schema, shapes)
        case "array":
            return _fit_list(value, schema, shapes)
        case "integer" | "number":
            return _fit_number(value, schema["type"])
        case "boolean" if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        case _:
            return value


def _fit_option(value: Any, options: Sequence[Schema], shapes: Mapping[str, Schema]) -> Any:
    """Fit a value that may be null. One of several other types is left alone."""
    others = [option for option in options if option.get("type") != "null"]
    if len(others) < len(options) and isinstance(value, str) and value.strip().lower() in _NOTHING:
        return None
    return _fit(value, others[0], shapes) if len(others) == 1 and value is not None else value


def _fit_choice(value: Any, choices: Sequence[Any]) -> Any:
    if not isinstance(value, str):
        return value
    return next((one for one in choices if isinstance(one, str) and _plain(one) == _plain(value)), value)


def _fit_object(value: Any, schema: Schema, shapes: Mapping[str, Schema]) -> Any:
    """Fit an object. A list or a nullable field that is missing beside others is empty."""
    if not isinstance(value, dict):
        return value
    given = {_plain(name): part for name, part in list(value.items())[:MAX_ITEMS]}
    fitted = {}
    for name, part in schema.get("properties", {}).items():
        if _plain(name) in given:
            fitted[name] = _fit(given[_plain(name)], part, shapes)
    if fitted:
        for name, part in schema.get("properties", {}).items():
            if name not in fitted and part.get("type") == "array":
                fitted[name] = []
            elif name not in fitted and any(option.get("type") == "null" for option in part.get("anyOf", ())):
                fitted[name] = None
    return fitted


def _fit_list(value: Any, schema: Schema, shapes: Mapping[str, Schema]) -> Any:
    if value is None:
        return []
    items = value if isinstance(value, list) else [value]
    return [_fit(item, schema.get("items", {}), shapes) for item in items[:MAX_ITEMS]]


def _fit_number(value: Any, kind: str) -> Any:
    if isinstance(value, str) and len(value) <= MAX_DIGITS:
        try:
            value = float(value) if kind == "number" or "." in value else int(value)
        except ValueError:
            return value
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _plain(name: object) -> str:
    """Return a name without the differences of spelling: "Same_Fact", "same-fact" and "sameFact" are one."""
    return "".join(letter for letter in str(name)[:100].casefold() if letter not in " _-")


@dataclass(frozen=True, slots=True)
class ReadAnswer(Generic[T]):
    """The answer in a text; `value` is None if there is none.

    `is_cut`: the answer ended early, so `value` has the items before its end. `refused`: the rules that other items
    broke, one for each. `items`: how many items its lists have.
    """

    value: T | None = None
    is_cut: bool = False
    refused: tuple[str, ...] = ()
    items: int = 0


class AnswerReader(Generic[T]):
    """A reader of texts that should be answers of one type."""

    def __init__(self, answer: type[T]) -> None:
        """Build the reader. `schema` is the JSON schema of the answer."""
        self._type = TypeAdapter(answer)
        self.schema = self._type.json_schema()

    def read_answer(self, text: str, thoughts: str = "") -> ReadAnswer[T]:
        """Return the answer in the text, or else in the model's `thoughts`: some servers put all of it there.

        A complete answer comes before one that is cut. Of several, the last one with items counts: drafts come first,
        and a remark on an empty answer last.
        """
        text = text[:MAX_READ]
        spoken = strip_thoughts(text)
        for part in dict.fromkeys(
            (spoken[-MAX_TEXT:] if len(spoken) > MAX_TEXT else spoken, text, thoughts[:MAX_READ])
        ):
            read = self._read_best(find_json(part))
            if read.value is not None:
                return read
        return ReadAnswer()

    def _read_best(self, found: Iterable[FoundValue]) -> ReadAnswer[T]:
        values = [(one, find_answer(one.value, self.schema)) for one in found]
        answers = [(answer, one.is_cut) for one, answer in values if answer is not None]
        reads = [self._validate(answer, is_cut) for answer, is_cut in answers[: -MAX_ANSWERS - 1 : -1]]
        whole = [read for read in reads if read.value is not None and not read.is_cut]
        if whole:
            return next((read for read in whole if read.items), whole[0])
        bare = [one.value for one, answer in values if answer is None and not one.is_cut]
        items = [item for value in bare for item in (value if isinstance(value, list) else [value])]
        if bare and (wrapped := wrap_items(items, self.schema)) is not None:
            is_broken = any(one.is_cut for one, _ in values)  # the items of a broken list come one by one
            reads.append(self._validate(wrapped, is_broken))
        return max(reads, key=lambda read: read.items, default=ReadAnswer())

    def _validate(self, answer: Mapping[str, Any], is_cut: bool) -> ReadAnswer[T]:
        """Validate an answer strictly, without its invalid items."""
        value = fit_answer(answer, self.schema)
        try:
            return self._accept(value, is_cut, ())
        except ValidationError as error:
            places = {one["loc"][:2] for one in error.errors(include_url=False, include_context=False)}
        if not isinstance(value, dict) or any(len(place) < 2 or not isinstance(place[1], int) for place in places):
            return ReadAnswer()
        kept = {
            name: [item for at, item in enumerate(part) if (name, at) not in places] if isinstance(part, list) else part
            for name, part in value.items()
        }
        try:
            return self._accept(kept, is_cut, (INVALID,) * len(places))
        except ValidationError:
            return ReadAnswer()

    def _accept(self, value: Any, is_cut: bool, refused: tuple[str, ...]) -> ReadAnswer[T]:
        answer = self._type.validate_python(value, strict=True)
        if (is_cut or refused) and not any(value.values()):  # nothing of it is left: this is no empty answer
            return ReadAnswer()
        items = sum(len(part) for part in value.values() if isinstance(part, list))
        return ReadAnswer(answer, is_cut, refused, items)


_READERS: Final[dict[type[Any], AnswerReader[Any]]] = {}


def build_reader(answer: type[T]) -> AnswerReader[T]:
    """Return the reader of an answer type. It is built once, because a schema takes time."""
    if answer not in _READERS:
        _READERS[answer] = AnswerReader(answer)
    return _READERS[answer]
