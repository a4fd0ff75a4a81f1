"""The clusters of an installation, as operators see them."""

from collections import Counter
from dataclasses import dataclass

from app.domain.errors import MnemaError, NotFound
from app.storage.clusters.homes import Homes


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A cluster. `state`: `serving`, `draining` (it takes no new tenants), or what is wrong with it.

    `size`: the bytes of its database, None if it does not answer. `max_bytes`: the most, if the file sets a bound.
    """

    name: str
    region: str | None
    keeps_directory: bool
    tenants: int
    size: int | None
    max_bytes: int | None
    state: str


class Clusters:
    """The use-cases that list clusters and their tenants."""

    def __init__(self, homes: Homes) -> None:
        self._homes = homes

    async def list_clusters(self) -> list[ClusterState]:
        """Return the clusters in the order of the file. Raise DatabaseUnavailable if none answers."""
        await self._homes.load_changes()
        counts = Counter(self._homes.list_homes().values())
        draining = await self._homes.list_draining()
        rooms = await self._homes.list_rooms()
        return [
            ClusterState(
                name=name,
                region=region,
                keeps_directory=place == 0,
                tenants=counts[name],
                size=None if (room := rooms[name]) is None else room.used,
                max_bytes=self._homes.bounds[name],
                state=_describe(draining[name]),
            )
            for place, (name, region) in enumerate(self._homes.regions.items())
        ]

    async def list_tenants(self, cluster: str) -> list[str]:
        """Return the ids of the tenants that are at home in the cluster. Raise NotFound."""
        if cluster not in self._homes.regions:
            raise NotFound(f"no cluster {cluster!r}; there are: {', '.join(self._homes.regions)}")
        await self._homes.load_changes()
        return sorted(str(tenant) for tenant, home in self._homes.list_homes().items() if home == cluster)


def _describe(draining: bool | MnemaError) -> str:
    if isinstance(draining, MnemaError):
        return draining.detail
    return "draining" if draining else "serving"
