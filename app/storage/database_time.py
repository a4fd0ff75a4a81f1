"""The database's clock."""

from datetime import datetime

from app.storage.uow import UnitOfWork


class DatabaseTime:
    """The clock of the primary. A replica's may differ."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    async def read_time(self) -> datetime:
        """Return the present time."""
        [row] = await self._uow.call_definer("SELECT clock_timestamp() AS moment")
        moment: datetime = row["moment"]
        return moment
