"""The saved filters of a page. The browser keeps them (`static/console.js`); the server never sees them."""

from nicegui import ui

from console.context import PageContext


def show_saved_filters(page: PageContext) -> None:
    """Show the place that the browser fills: a list of the saved filters, and a field that saves the present ones.

    Another key in the same browser has other saved filters.
    """
    place = ui.element("div").classes("saved")
    place.props["data-saved-filters"] = f"{page.path}:{page.key.key_id}"
