"""The page People: the users with their counts, and one person."""

from nicegui import ui

from console.context import PageContext
from console.pages.person import show_person
from console.widgets.filters import LONGEST_FILTER, FilterForm
from console.widgets.keyset import KeysetList
from console.widgets.states import show_note
from console.widgets.text import show_time, show_user

PAGE_ITEMS = 50


def show(page: PageContext) -> None:
    """Show the person in the address, or the list of users."""
    if not page.key.allows("query"):
        show_note("Your key may not read users: it has no scope query.", "warning")
        return
    user_id = page.params.get("user_id", "")[:LONGEST_FILTER]
    if user_id:
        show_person(page, user_id)
    else:
        _show_users(page)


def _show_users(page: PageContext) -> None:
    async def refresh() -> None:
        await users.refresh()

    with ui.element("section").classes("section").props("aria-label=Users"):
        form = FilterForm(page, {"prefix": "Name begins with"}, refresh)
        users = KeysetList(
            page,
            lambda cursor: page.memory.user_page(prefix=form.values.get("prefix"), limit=PAGE_ITEMS, cursor=cursor),
            {
                "User": lambda user: show_user(user.user_id),
                "Memories": lambda user: ui.label(f"{user.memories:,}").classes("number"),
                "Threads": lambda user: ui.label(f"{user.threads:,}").classes("number"),
                "Last activity": lambda user: show_time(user.last_activity_at),
                "First seen": lambda user: show_time(user.created_at),
            },
            label="Users",
            empty=form.explain_empty(
                "No users", "A user appears with the first write: POST /memory, POST /turns or POST /facts."
            ),
        )
