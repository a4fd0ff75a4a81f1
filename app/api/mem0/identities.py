"""mem0's ids in Mnema's terms: a run is a thread, an app is a tag, and a memory without a user has a stand-in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from app.domain.errors import InvalidInput
from app.domain.filters import Filters
from app.domain.ids import check_identifier
from app.domain.memory.memory import Memory

EntityType = Literal["user", "agent", "app", "run"]
NAMES: Final = ("user_id", "agent_id", "app_id", "run_id")
"""The fields of mem0 that name whose a memory is."""
DEFAULT_THREAD: Final = "mem0"
"""The thread of turns that name no run. mem0's clients see no run there."""
APP: Final = "app:"
"""The beginning of the tag that names the app of a memory."""


STAND_INS: Final[Mapping[str, EntityType]] = {"agent": "agent", "run": "run", "app": "app"}
"""The beginnings of a stand-in for a user, in the order in which one is chosen."""


@dataclass(frozen=True, slots=True)
class Identities:
    """The ids of one memory, or of a filter. None: none, or any."""

    user_id: str | None = None
    agent_id: str | None = None
    app_id: str | None = None
    run_id: str | None = None

    @property
    def is_empty(self) -> bool:
        """True if it names nothing."""
        return self == Identities()

    @property
    def owner(self) -> str:
        """The user of a new memory. Without a user it is a stand-in such as `agent:tutor`.

        Raise InvalidInput if nothing is named, or if the stand-in is too long for an identifier (200 characters).
        """
        if self.user_id is not None:
            return self.user_id
        for kind in STAND_INS:
            if (name := getattr(self, f"{kind}_id")) is not None:
                return check_identifier(f"{kind}:{name}")
        raise InvalidInput(f"name at least one of: {', '.join(NAMES)}")

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of a new memory. Raise InvalidInput if the app's name is too long for a tag."""
        return () if self.app_id is None else (check_identifier(APP + self.app_id),)

    def to_filters(self) -> Filters:
        """Return the conditions on memories that have all these ids."""
        tag = None if self.app_id is None else APP + self.app_id
        return Filters(user_id=self.user_id, agent_id=self.agent_id, thread_id=self.run_id, tag=tag)


def identities_of(memory: Memory) -> Identities:
    """Return the ids of a stored memory, as mem0's clients know them."""
    app = next((tag.removeprefix(APP) for tag in memory.tags if tag.startswith(APP)), None)
    run = None if memory.thread_id == DEFAULT_THREAD else memory.thread_id
    stand_ins = {f"agent:{memory.agent_id}", f"run:{run}", f"app:{app}"}
    return Identities(None if memory.user_id in stand_ins else memory.user_id, memory.agent_id, app, run)


def split_stand_in(user_id: str) -> tuple[EntityType, str]:
    """Return the type and the name of mem0's entity for a user: (`agent`, `tutor`) for `agent:tutor`."""
    kind, _, name = user_id.partition(":")
    return (STAND_INS[kind], name) if name and kind in STAND_INS else ("user", user_id)
