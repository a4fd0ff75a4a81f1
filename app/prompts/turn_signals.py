"""The signals in a model's answer: their schema, and the checks that drop each invalid one alone."""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, ValidationError, WithJsonSchema

from app.domain.errors import InvalidInput
from app.domain.reflection import grounding
from app.domain.reflection.grounding import find_quote, fold_quote, is_short_quote
from app.domain.text_rules import normalise_text
from app.domain.turn_memory.extraction import MAX_FOUND
from app.domain.turn_memory.signals import Signal, SignalKind, read_signal, render_value
from app.prompts import CHARACTERS_A_TOKEN, AnswerPart, Quote, bound_list, bound_quote, bound_text

MAX_KEY: Final = 40
MAX_VALUE: Final = 200
MAX_SUBJECT: Final = 80
"""The characters of what a signal applies to."""
MAX_NUMBER: Final = 10**12
SIGNAL_PUNCTUATION: Final = 140
"""The characters of a signal in JSON besides its texts: names of fields, choices, brackets and blanks."""
MAX_NAMED: Final = 400
"""The most characters of a value and what it applies to."""
Admission = tuple[Signal, str] | None
"""An admitted signal, with a text whose names and numbers its value may have besides the source's; None if refused."""


_Number = Field(json_schema_extra={"minimum": -MAX_NUMBER, "maximum": MAX_NUMBER})
_Text: TypeAlias = Annotated[str, bound_text(MAX_VALUE)]
_Whole: TypeAlias = Annotated[int, _Number]
_Fraction: TypeAlias = Annotated[float, _Number]


class _Signal(AnswerPart):
    key: Annotated[str, bound_text(MAX_KEY)]
    value: _Text | _Whole | _Fraction | bool
    severity: str
    scope: Literal["conversation", "objective", "artifact", "thread"]
    applies_to: Annotated[str, bound_text(MAX_SUBJECT)]
    quote: Quote


class Assertion(_Signal):
    """A statement that changes how we act."""

    severity: Literal["must", "prefer", "allow"]


class Exclusion(_Signal):
    """Something to avoid."""

    severity: Literal["avoid", "do_not"]


class Fact(_Signal):
    """A statement that describes the world."""

    severity: Literal["high", "medium", "low"]


class AssistantSignal(_Signal):
    """Something that the assistant mentioned or promoted."""

    severity: Literal["mention", "recommend", "strong_promote"]


# The schema is strict. The answer is read leniently, so that one bad signal does not cost the others.
Assertions = Annotated[list[Annotated[Any, WithJsonSchema(Assertion.model_json_schema())]], bound_list(MAX_FOUND)]
Exclusions = Annotated[list[Annotated[Any, WithJsonSchema(Exclusion.model_json_schema())]], bound_list(MAX_FOUND)]
Facts = Annotated[list[Annotated[Any, WithJsonSchema(Fact.model_json_schema())]], bound_list(MAX_FOUND)]
AssistantSignals = Annotated[
    list[Annotated[Any, WithJsonSchema(AssistantSignal.model_json_schema())]], bound_list(MAX_FOUND)
]
_MODELS: Final[dict[SignalKind, type[_Signal]]] = {
    SignalKind.assertions: Assertion,
    SignalKind.exceptions: Exclusion,
    SignalKind.facts: Fact,
    SignalKind.assistant_signals: AssistantSignal,
}


def admit_signal(signal: Signal) -> Admission:
    """Admit the signal as it is."""
    return signal, ""


class SignalReader:
    """A reader of the signals that a model found in one source text. It counts those given and those kept."""

    def __init__(self, source: str) -> None:
        self.items = 0
        self.items_ok = 0
        self._source = grounding.Source(source)
        self._text = source

    def read_signals(
        self, kind: SignalKind, raw: Sequence[Any], admit: Callable[[Signal], Admission] = admit_signal
    ) -> tuple[Signal, ...]:
        """Return the valid signals of a kind, each identity once, at most MAX_FOUND.

        A signal is valid if it has the right shape, `find_quote` finds its quote in the source, and neither its value
        nor what it applies to has a name or number that the source lacks. `admit` may replace a signal or refuse it.
        """
        self.items += len(raw)
        kept: dict[Any, Signal] = {}
        for item in raw[:MAX_FOUND]:
            signal = self._read_signal(kind, item, admit)
            if signal is not None:
                self.items_ok += 1
                kept.setdefault(signal.identity, signal)
        return tuple(kept.values())

    def _read_signal(self, kind: SignalKind, item: Any, admit: Callable[[Signal], Admission]) -> Signal | None:
        try:
            given = _MODELS[kind].model_validate(item, strict=True)
            admitted = admit(read_signal(kind, given.model_dump(exclude={"quote"})))
            if admitted is None or not self._has_quote(given.quote):
                return None
        except (ValidationError, InvalidInput):
            return None
        signal, trusted = admitted
        named = f"{render_value(signal.value)} {signal.applies_to}"
        if len(named) > MAX_NAMED or grounding.find_foreign_to(named, self._source, grounding.Source(trusted)):
            return None
        return signal

    def _has_quote(self, quote: str) -> bool:
        found = find_quote(quote, self._text)
        return bool(found) and (not is_short_quote(found) or found.casefold() == fold_quote(self._text))


def tidy_texts(texts: Iterable[str], most: int, longest: int) -> tuple[str, ...]:
    """Return the first `most` texts on one line each, without empty, equal and too long ones."""
    clean = (normalise_text(text[: 4 * longest]) for text in texts)
    return tuple(dict.fromkeys(text for text in clean if 0 < len(text) <= longest))[:most]


def bound_signals(source: str, kinds: Sequence[SignalKind], tokens: int) -> dict[str, int]:
    """Return the bounds of an answer's signals: as many of each kind as fit into the tokens.

    The quotes of a short message are short, so more signals fit.
    """
    quote = bound_quote(source)
    longest = MAX_KEY + MAX_VALUE + MAX_SUBJECT + quote + SIGNAL_PUNCTUATION
    most = CHARACTERS_A_TOKEN * tokens // (len(kinds) * longest)
    return {"quote": quote, **{kind.value: max(1, min(MAX_FOUND, most)) for kind in kinds}}
