"""The settings of facts."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

from app.domain.facts.fact import FactOperation, TopicNames
from app.domain.facts.topics import FactTopics
from app.domain.settable import SETTABLE


@dataclass(frozen=True, slots=True)
class FactPolicy:
    """The settings of facts, and the topics that have a name of their own.

    - `category`: a key bound to agents needs an agent that may see this category.
    - `across_threads`: a question may be answered from another thread of the user if its own has no such topic.
    - `max_rank`: the highest rank of a list.
    - `value_chars`: the longest value, in characters.
    """

    category: Annotated[str, SETTABLE] = "preferences"
    across_threads: Annotated[bool, SETTABLE] = True
    max_rank: Annotated[int, SETTABLE] = 10
    value_chars: Annotated[int, SETTABLE] = 200
    topics: FactTopics = field(default_factory=lambda: FactTopics({}))

    def __post_init__(self) -> None:
        if not 1 <= self.max_rank <= 1000:
            raise ValueError("max_rank must be from 1 to 1000")
        if not 1 <= self.value_chars <= 1000:
            raise ValueError("value_chars must be from 1 to 1000")

    def name_topics(self, operations: Iterable[FactOperation]) -> dict[str, TopicNames]:
        """Return the names of the topics that these operations are about."""
        keys = {operation.topic_key for operation in operations if operation.topic_key is not None}
        return {key: TopicNames(self.topics.singular_name(key), self.topics.topic_name(key)) for key in sorted(keys)}
