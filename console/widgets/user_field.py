"""A field for a user, with a drop-down of the users that there are."""

from nicegui import background_tasks, ui

from console.context import PageContext
from console.texts import reveal_text
from console.widgets.filters import LONGEST_FILTER

MOST_CHOICES = 200
"""Users in the drop-down. Others can be typed."""


def add_user_field(page: PageContext, label: str = "User", value: str = "") -> ui.input:
    """Add the field. Its drop-down fills after the page has been sent."""
    field = ui.input(label, value=value[:LONGEST_FILTER]).props("outlined dense autocomplete=off clearable")
    choices = ui.element("datalist")
    field.props["list"] = choices.html_id

    async def load() -> None:
        found = await page.attempt(page.memory.user_page(limit=MOST_CHOICES))
        if found is None or page.client.is_deleted or choices.is_deleted:
            return
        with choices:
            for user in found.items:
                if reveal_text(user.user_id) == user.user_id:  # the browser shows the raw name
                    ui.element("option").props["value"] = user.user_id

    background_tasks.create(load(), name="load users")
    return field
