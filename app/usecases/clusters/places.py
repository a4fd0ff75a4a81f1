"""The place of a tenant, for its administrators, who may ask for a move if the operator lets them."""

from app.domain.clusters.place import (
    MoveRefused,
    MovesNotOffered,
    NoClusters,
    NoMover,
    NotMoving,
    TenantMove,
    TenantPlace,
    TooManyMoves,
)
from app.domain.errors import MnemaError, NotFound
from app.domain.principal import Principal
from app.storage.clusters.homes import Homes, Place
from app.storage.clusters.requests import MoveRequests, RequestOutcome


class TenantPlaces:
    """The use-cases of a tenant's place.

    `homes` is None without clusters. `moves_per_day`: how often a tenant may ask for a move in 24 hours; 0 is never.
    """

    def __init__(self, homes: Homes | None, moves_per_day: int) -> None:
        self._homes = homes
        self._moves_per_day = moves_per_day

    async def get_place(self, principal: Principal) -> TenantPlace:
        """Return where the tenant lives. Raise NoClusters, or DatabaseUnavailable while the directory is away."""
        homes = self._require_homes()
        requests = MoveRequests(homes)
        move = await requests.find_newest(principal)
        place = await homes.find_place(principal.tenant_id)
        if place is None:
            raise NotFound("the tenant has no placement: its operator runs `mnema doctor`")
        copies = await homes.ask_copies(principal.tenant_id)
        return TenantPlace(
            cluster=place.cluster,
            region=homes.regions.get(place.cluster),
            bound_to=place.region,
            copies=[name for name, has_copy in copies.items() if has_copy],
            unreached=[name for name, has_copy in copies.items() if has_copy is None],
            targets=await self._list_targets(homes, place) if self._moves_per_day else {},
            move=move,
            problem=await self._find_problem(requests, move),
        )

    async def request_move(self, principal: Principal, target: str) -> TenantMove:
        """Ask for a move to the cluster `target`; return the move that a worker begins. Idempotent while it lasts.

        Raise NoClusters, MovesNotOffered, NoMover, TooManyMoves, or MoveRefused if the tenant cannot move there.
        """
        homes = self._require_homes()
        if not self._moves_per_day:
            raise MovesNotOffered()
        requests = MoveRequests(homes)
        await self._check_target(homes, principal, target)
        answer = await requests.request_move(principal, target, self._moves_per_day)
        move = await requests.find_newest(principal)
        if answer.outcome == "moving" and move is not None and move.requested and move.target == target:
            return move
        if answer.outcome != "requested":
            raise _refusal(answer, target)
        assert move is not None
        return move

    async def abort_move(self, principal: Principal) -> TenantMove:
        """Ask for the end of the move that the tenant asked for; return it. Who runs it undoes it, or a worker does.

        Raise NoClusters, NotMoving, or MoveRefused if it can only go forward, or is the operator's.
        """
        requests = MoveRequests(self._require_homes())
        if (withdrawn := await requests.withdraw_move(principal)) is not None:
            return withdrawn
        is_aborted = await requests.abort_move(principal)
        move = await requests.find_newest(principal)
        if move is None or (move.ended_at is not None and not is_aborted):
            raise NotMoving()
        if not move.requested:
            raise MoveRefused("the operator moves the tenant, and only the operator may undo it")
        if not is_aborted:
            raise MoveRefused(f"the tenant is at home in {move.target} already: the move can only go forward")
        return move

    async def _list_targets(self, homes: Homes, place: Place) -> dict[str, str | None]:
        draining = await homes.list_draining()
        return {
            name: region
            for name, region in homes.regions.items()
            if name != place.cluster and place.region in (None, region) and draining[name] is False
        }

    async def _check_target(self, homes: Homes, principal: Principal, target: str) -> None:
        """Raise MoveRefused if the tenant cannot move to this cluster. The worker checks it again."""
        if target not in homes.regions:
            raise MoveRefused(f"no cluster {target!r}; there are: {', '.join(homes.regions)}")
        place = await homes.find_place(principal.tenant_id)
        if place is not None and place.region not in (None, homes.regions[target]):
            raise MoveRefused(
                f"the tenant is bound to the region {place.region}, and {target} is not in it: only the operator's"
                " command leaves a region"
            )
        draining = (await homes.list_draining())[target]
        if isinstance(draining, MnemaError):
            raise draining
        if draining:
            raise MoveRefused(f"{target} takes no tenants now")

    async def _find_problem(self, requests: MoveRequests, move: TenantMove | None) -> MnemaError | None:
        if not self._moves_per_day:
            return MovesNotOffered()
        if move is not None and move.ended_at is None:
            return MoveRefused(f"the tenant is moving to {move.target}")
        return None if await requests.has_mover() else NoMover()

    def _require_homes(self) -> Homes:
        if self._homes is None:
            raise NoClusters()
        return self._homes


def _refusal(answer: RequestOutcome, target: str) -> MnemaError:
    refusals: dict[str, MnemaError] = {
        "no_mover": NoMover(),
        "at_home": MoveRefused(f"the tenant is at home in {target} already"),
        "moving": MoveRefused("the tenant is moving already"),
        "spent": TooManyMoves(retry_after=answer.wait_s),
    }
    return refusals.get(answer.outcome, MoveRefused("the tenant has no placement: its operator runs `mnema doctor`"))
