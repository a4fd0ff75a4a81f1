"""The calls on the tenant's place among the clusters, which need scope `admin`."""

from mnema_wire.places import NewMove, TenantMove, TenantPlace

from mnema_client.calls import JSON, get_call, json_body, model_reader
from mnema_client.transport import Call


def tenant_place() -> Call[TenantPlace]:
    """Return where the tenant lives, and its newest move. Raise NotFound if there are no clusters."""
    return get_call("/tenant/place", TenantPlace)


def request_move(cluster: str) -> Call[TenantMove]:
    """Ask for a move to another cluster, if the operator offers moves. Idempotent while the move lasts."""
    return Call(
        "POST",
        "/tenant/moves",
        model_reader(TenantMove),
        content=json_body(NewMove, cluster=cluster),
        headers=dict(JSON),
    )


def abort_move() -> Call[TenantMove]:
    """Ask for the end of the tenant's move. Raise NotFound if it is not moving."""
    return Call("DELETE", "/tenant/moves/current", model_reader(TenantMove))
