"""The builder of the capability `agent_state`: checkpoints and store items."""

from dataclasses import dataclass

from app.bootstrap.parts import SharedParts
from app.domain.agent_state.checkpoints import CHECKPOINT_SIZE_FACTOR
from app.storage.agent_state.checkpoints import CheckpointStorage
from app.storage.agent_state.store_items import ItemStorage
from app.usecases.agent_state.checkpoints import Checkpoints
from app.usecases.agent_state.store_items import ManageStoreItems
from app.usecases.tenancy.limits import Limits


@dataclass(frozen=True, slots=True)
class AgentStateUseCases:
    """The use-cases of checkpoints, and of the values that agents keep by namespace and key."""

    checkpoints: Checkpoints
    store_items: ManageStoreItems


def build_agent_state(parts: SharedParts, limits: Limits) -> AgentStateUseCases:
    """Build the use-cases. The setting `max_checkpoint_bytes` bounds a checkpoint."""
    largest = parts.settings.max_checkpoint_bytes
    checkpoints = CheckpointStorage(parts.uow, CHECKPOINT_SIZE_FACTOR * largest)
    items = ItemStorage(parts.space.name)
    return AgentStateUseCases(
        checkpoints=Checkpoints(checkpoints, largest),
        store_items=ManageStoreItems(
            parts.uow, items, parts.embedder, limits, parts.clock, parts.settings.store_batch_s
        ),
    )
