"""The data of an evaluation: conversations of stored units, and questions with their evidence.

docs/evaluation.md describes the lines of the native form. The loaders of public sets make the same lines.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, TypeAlias

from mnema_wire.checks import check_identifier, check_moment
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

AGENT: Final = "supervisor"
"""The agent that asks."""
TURN_CATEGORY: Final = "activity"
"""The category in which turns are stored."""
MOST_UNITS: Final = 1_000_000
MOST_QUESTIONS: Final = 100_000
MOST_EVIDENCE: Final = 1_000
MOST_CHARACTERS: Final = 1_000_000
FIRST_TIME: Final = datetime(2025, 1, 1, tzinfo=UTC)
"""The time of a conversation's first unit if it has none."""
STEP: Final = timedelta(minutes=1)
"""The time between a unit without a time and the one before it."""


class DataError(ValueError):
    """The data cannot be read. The message names the file and the line."""


def _read_id(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _put_in_zone(moment: datetime) -> datetime:
    """Return the moment in UTC. One without a zone is of UTC."""
    return check_moment(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment).astimezone(UTC)


Id: TypeAlias = Annotated[str, BeforeValidator(_read_id), AfterValidator(check_identifier)]
Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
Moment: TypeAlias = Annotated[datetime, AfterValidator(_put_in_zone)]


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    conversation: Id = "1"
    at: Moment | None = None


class TurnLine(_Line):
    """A turn of a conversation. Without `seq` it follows the thread's turn before it."""

    turn: Id
    text: Text
    actor: Id | None = None
    role: Id = "user"
    thread: Id = "1"
    seq: int | None = Field(default=None, ge=0, le=2**31 - 1)


class MemoryLine(_Line):
    """A memory as a client writes it."""

    memory: Id
    text: Text
    category: Id = "preferences"


class QuestionLine(_Line):
    """A question. No evidence: nothing answers it. `at`: when it is asked, by default a day after the last unit.

    `answer`: the expected answer, for a judge.
    """

    question: Text
    evidence: list[Id] = Field(max_length=MOST_EVIDENCE)
    kind: Id = "question"
    answer: Annotated[Text, BeforeValidator(_read_id)] | None = None


LINES: Final[Mapping[str, type[_Line]]] = {"turn": TurnLine, "memory": MemoryLine, "question": QuestionLine}
Line: TypeAlias = TurnLine | MemoryLine | QuestionLine


@dataclass(frozen=True, slots=True)
class Skipped:
    """A part of a public set that cannot be measured, and why."""

    reason: str


Read: TypeAlias = tuple[str, Mapping[str, Any] | Skipped]
"""The place of a line for errors, and what a loader read there."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A turn or a memory that is stored. `category` is None for a turn; `thread`, `seq` and `role` for a memory."""

    id: str
    text: str
    at: datetime
    category: str | None = None
    actor: str | None = None
    role: str | None = None
    thread: str | None = None
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the ids of the units that hold its answer, and when it is asked. `place`: its place in the data.

    `answer`: the expected answer, if the data has one.
    """

    place: int
    text: str
    kind: str
    evidence: frozenset[str]
    at: datetime | None = None
    answer: str | None = None


@dataclass(slots=True)
class Conversation:
    """A conversation: the units of one user, and its questions."""

    id: str
    units: list[Unit] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)

    @property
    def asked_at(self) -> datetime:
        """The time at which its questions are asked: a day after the last unit."""
        return max((unit.at for unit in self.units), default=FIRST_TIME) + timedelta(days=1)

    def asking_time(self, question: Question) -> datetime:
        """Return the time at which a question is asked."""
        return question.at or self.asked_at


@dataclass(slots=True)
class DataSet:
    """The conversations that are asked, and how many parts of the data were left out, by reason.

    `spare` has the other conversations, whose units may fill larger stores.
    """

    conversations: list[Conversation] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    spare: list[Conversation] = field(default_factory=list)

    @property
    def question_count(self) -> int:
        """The number of questions."""
        return sum(len(one.questions) for one in self.conversations)


def parse_line(place: str, values: object) -> Line:
    """Return the line that a JSON value is. Raise DataError, which names the place."""
    if not isinstance(values, dict):
        raise DataError(f'{place}: a line is a JSON object, such as {{"turn": "t1", "text": "…"}}')
    kinds = [kind for kind in LINES if kind in values]
    if len(kinds) != 1:
        raise DataError(f"{place}: a line has one of the keys {', '.join(LINES)}; this one has {len(kinds)} of them")
    try:
        line: Any = LINES[kinds[0]].model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or kinds[0]
        raise DataError(f"{place}: {name}: {first['msg']}") from error
    parsed: Line = line
    return parsed


class Collector:
    """A collector that puts lines together to a data set."""

    def __init__(self) -> None:
        self._found: dict[str, Conversation] = {}
        self._ids: dict[str, dict[str, str]] = {}
        self._last: dict[tuple[str, str], int] = {}
        self._asked: list[tuple[str, QuestionLine]] = []
        self._units = 0
        self._left_out: Counter[str] = Counter()

    def add_all(self, read: Iterable[Read]) -> None:
        """Add the lines. Raise DataError for a wrong line, an id that is there twice, and too many lines."""
        for place, values in read:
            if isinstance(values, Skipped):
                self._left_out[values.reason] += 1
                continue
            line = parse_line(place, values)
            if isinstance(line, QuestionLine):
                self._asked.append((place, line))
                if len(self._asked) > MOST_QUESTIONS:
                    raise DataError(f"{place}: more than {MOST_QUESTIONS} questions")
            else:
                self._add_unit(place, line)

    def _add_unit(self, place: str, line: TurnLine | MemoryLine) -> None:
        conversation = self._find(line.conversation)
        places = self._ids[line.conversation]
        id_ = line.turn if isinstance(line, TurnLine) else line.memory
        if id_ in places:
            raise DataError(f"{place}: {id_!r} is already the id of {places[id_]}")
        self._units += 1
        if self._units > MOST_UNITS:
            raise DataError(f"{place}: more than {MOST_UNITS} turns and memories")
        places[id_] = place
        at = line.at or (conversation.units[-1].at + STEP if conversation.units else FIRST_TIME)
        if isinstance(line, MemoryLine):
            conversation.units.append(Unit(id_, line.text, at, category=line.category))
            return
        thread = line.conversation, line.thread
        seq = self._last.get(thread, -1) + 1 if line.seq is None else line.seq
        self._last[thread] = seq
        conversation.units.append(
            Unit(id_, line.text, at, actor=line.actor, role=line.role, thread=line.thread, seq=seq)
        )

    def _find(self, id_: str) -> Conversation:
        self._ids.setdefault(id_, {})
        return self._found.setdefault(id_, Conversation(id_))

    def finish(self) -> DataSet:
        """Return the data set. Raise DataError for evidence that no line has, and for data without questions."""
        for number, (place, line) in enumerate(self._asked, start=1):
            known = self._ids.get(line.conversation)
            if not known:
                raise DataError(f"{place}: conversation {line.conversation!r} has no turn and no memory")
            if unknown := [id_ for id_ in line.evidence if id_ not in known]:
                raise DataError(f"{place}: evidence {unknown[0]!r} is no id of conversation {line.conversation!r}")
            question = Question(number, line.question, line.kind, frozenset(line.evidence), line.at, line.answer)
            self._found[line.conversation].questions.append(question)
        if not self._asked:
            raise DataError("the data has no questions")
        return DataSet(list(self._found.values()), self._left_out)
