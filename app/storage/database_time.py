"""The database's clock."""

from datetime import datetime

from app.storage.uow import UnitOfWork


async def read_database_time(uow: UnitOfWork) -> datetime:
    """Return the time of the primary's clock. A replica's may differ."""
    [row] = await uow.call_definer("SELECT clock_timestamp() AS moment")
    moment: datetime = row["moment"]
    return moment
