"""Route of /usage."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from mnema_wire.fields import Day, Identifier, Limit, NameCursor
from mnema_wire.receipts import UsagePage

from app.api import links
from app.api.deps import Administrator, App
from app.api.errors import key_errors
from app.api.schemas.receipts.receipts import usage_page_body
from app.api.transport.parameters import StrictRoute
from app.domain.receipts.usage import UsageFilter

router = APIRouter(prefix="/usage", tags=["usage"], route_class=StrictRoute)


@router.get("", responses={200: {"links": links.USAGE}, **key_errors()})
async def page(
    app: App,
    principal: Administrator,
    by: Annotated[Literal["day", "user"], Query()] = "day",
    user_id: Annotated[Identifier | None, Query(description="only usage of this user")] = None,
    since: Annotated[Day | None, Query(description="first day (UTC); without it 31 days count")] = None,
    until: Annotated[Day | None, Query(description="the day after the last one (UTC)")] = None,
    limit: Annotated[Limit, Query()] = 50,
    cursor: Annotated[NameCursor | None, Query(description="`next_cursor` of the previous page")] = None,
) -> UsagePage:
    """Count queries, tokens of answers, writes and tokens of the chat model, by day or by user.

    Needs scope `admin`. Days without usage and users without usage are missing. Without `since`, the last 31 days
    before `until` count, or those up to today.
    """
    filters = UsageFilter(user_id, since, until)
    return usage_page_body(await app.receipts.usage.list_usage(principal, by, filters, cursor, limit))
