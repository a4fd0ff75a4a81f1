"""The reading of a model's text as the answer of a prompt: find the JSON, fit it to the schema, validate each item."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from app.domain.chat.thoughts import strip_thoughts
from app.providers.chat_models.answer_shapes import find_answer, fit_answer, wrap_items
from app.providers.chat_models.json_texts import MAX_TEXT, FoundValue, find_json

T = TypeVar("T")
MAX_READ: Final = 256 << 10
"""The most characters of a text that are searched for thoughts and for an answer."""
MAX_ANSWERS: Final = 5
"""The most answers of a text that are validated: the last ones."""
INVALID: Final = "invalid_item"
"""The rule that an item of another shape breaks."""


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
