"""The trace of a turn: what the background work made of it, and why nothing was remembered."""

from uuid import UUID

from mnema_wire.turn_trace import TurnTrace

from mnema_client.calls import model_reader, path_id
from mnema_client.transport import Call


def turn_trace(turn_id: UUID | str) -> Call[TurnTrace]:
    """Explain what the background work made of a turn; `turn_id` is the id that `add_turn` returned."""
    return Call("GET", f"/turns/{path_id(turn_id)}/trace", model_reader(TurnTrace))
