"""The builders of the capability `agent_state`: checkpoints and store items."""

from app.bootstrap.parts import SharedParts
from app.domain.agent_state.checkpoints import CHECKPOINT_SIZE_FACTOR
from app.storage.agent_state.checkpoints import CheckpointStorage
from app.storage.agent_state.store_items import ItemStorage
from app.usecases.agent_state.checkpoints import Checkpoints
from app.usecases.agent_state.store_items import ManageStoreItems
from app.usecases.tenancy.limits import Limits


def build_checkpoints(parts: SharedParts) -> Checkpoints:
    """Build the use-case of checkpoints, bounded by the setting `max_checkpoint_bytes`."""
    largest = parts.settings.max_checkpoint_bytes
    return Checkpoints(CheckpointStorage(parts.uow, CHECKPOINT_SIZE_FACTOR * largest), largest)


def build_store_items(parts: SharedParts, limits: Limits) -> ManageStoreItems:
    """Build the use-case of the values that agents keep by namespace and key."""
    items = ItemStorage(parts.space.name)
    return ManageStoreItems(parts.uow, items, parts.embedder, limits, parts.clock, parts.settings.store_batch_s)
