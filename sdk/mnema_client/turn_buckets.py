"""Buckets: what the turns of one objective state, gathered by the server. The call that reads them, and its answer."""

from typing import Literal

from mnema_wire.turn_views import Buckets

from mnema_client.calls import model_reader, query_params
from mnema_client.transport import Call
from mnema_client.turn_calls import conversation_path


def buckets(
    conversation_id: str, *, user_id: str, status: Literal["active", "disabled"] | None = None
) -> Call[Buckets]:
    """Return the buckets of a conversation, with this status or all."""
    path = f"{conversation_path(conversation_id)}/buckets"
    return Call("GET", path, model_reader(Buckets), query_params(user_id=user_id, status=status))
