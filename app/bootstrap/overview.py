"""The builder of the use-cases that show what a tenant holds, for operators and the console."""

from dataclasses import dataclass

from app.bootstrap.parts import SharedParts
from app.storage.memory.memories import MemoryStorage
from app.storage.operations.overview import OverviewStorage
from app.usecases.operations.event_list import ListEvents
from app.usecases.operations.overview import ReadOverview
from app.usecases.operations.own_key import DescribeKey
from app.usecases.operations.relation_graph import ReadRelations
from app.usecases.operations.turn_trace import TraceTurn


@dataclass(frozen=True, slots=True)
class OverviewUseCases:
    """The use-cases that list what a tenant holds and what happened, trace a turn, and describe the caller's key."""

    lists: ReadOverview
    key: DescribeKey
    events: ListEvents
    relations: ReadRelations
    trace: TraceTurn


def build_overview(parts: SharedParts) -> OverviewUseCases:
    """Build the use-cases."""
    memories = MemoryStorage(parts.uow, parts.space.name)
    return OverviewUseCases(
        lists=ReadOverview(parts.uow, OverviewStorage(), parts.policies),
        key=DescribeKey(parts.uow),
        events=ListEvents(parts.uow, parts.access),
        relations=ReadRelations(parts.uow),
        trace=TraceTurn(parts.uow, memories, parts.policies, has_model=parts.chat.is_available),
    )
