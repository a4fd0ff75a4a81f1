"""The page Events and usage: charts of counts by day, usage by day and by user, and the events one by one."""

from console.context import PageContext
from console.pages.events_charts import show_charts
from console.pages.events_list import show_events
from console.pages.events_usage import show_usage
from console.widgets.states import show_note


def show(page: PageContext) -> None:
    """Show the page."""
    if not page.key.allows("query"):
        show_note("Your key may not read events: it has no scope query.", "warning")
        return
    show_charts(page)
    if page.key.allows("admin"):
        show_usage(page)
    show_events(page)
