"""Answers of the server's chat model as streams of events."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from mnema_client.errors import ApiError, BrokenOff, UnexpectedAnswer, error_from_problem
from mnema_client.streams import Event
from mnema_client.transport import Call

M_co = TypeVar("M_co", bound=BaseModel, covariant=True)


@dataclass(frozen=True)
class TextDelta:
    """The next piece of the model's answer."""

    text: str


@dataclass(frozen=True)
class Restart:
    """The model writes its answer again: the pieces so far count no more. `reason` is the code of what was wrong."""

    reason: str


@dataclass(frozen=True)
class EventCall(Generic[M_co]):
    """A call whose response is a stream of events. The last one is the result."""

    call: Call[Any]
    result: type[M_co]

    def read_event(self, event: Any) -> "TextDelta | Restart | M_co | None":
        """Return an event, None for one that this package does not know. Raise the error that it tells of."""
        try:
            read = self._parse_event(event)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnexpectedAnswer(f"{self.call.path}: an event is not Mnema's", code="unexpected_answer") from error
        if isinstance(read, ApiError):
            raise read
        return read

    def _parse_event(self, event: Any) -> "TextDelta | Restart | M_co | ApiError | None":
        match event:
            case Event("delta", data):
                return TextDelta(data["text"])
            case Event("restart", data):
                return Restart(data["reason"])
            case Event("result", data):
                return self.result.model_validate(data)
            case Event("error", data):
                return error_from_problem(data)
        return None

    def check_end(self, last: Any) -> None:
        """Raise BrokenOff unless the last event is the result."""
        if not isinstance(last, self.result):
            raise BrokenOff(f"{self.call.path}: the stream ended without a result", code="broken_off")
