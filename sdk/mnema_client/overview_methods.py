"""The methods of both clients that show what a tenant holds."""

from mnema_client import overview
from mnema_client.methods import async_method, async_pages, sync_method, sync_pages


class OverviewMethods:
    """The methods of `Mnema` on users, threads, agents, categories, events, relations and its own key.

    `list_…` yields all items; `…_page` returns one page, whose `next_cursor` leads to the next one.
    """

    describe_key = sync_method(overview.describe_key)
    list_users = sync_pages(overview.user_page)
    user_page = sync_method(overview.user_page)
    list_threads = sync_pages(overview.thread_page)
    thread_page = sync_method(overview.thread_page)
    list_agents = sync_pages(overview.agent_page)
    list_categories = sync_pages(overview.category_page)
    list_events = sync_pages(overview.event_page)
    event_page = sync_method(overview.event_page)
    relations = sync_method(overview.relations)


class AsyncOverviewMethods:
    """The methods of `AsyncMnema` on users, threads, agents, categories, events, relations and its own key."""

    describe_key = async_method(overview.describe_key)
    list_users = async_pages(overview.user_page)
    user_page = async_method(overview.user_page)
    list_threads = async_pages(overview.thread_page)
    thread_page = async_method(overview.thread_page)
    list_agents = async_pages(overview.agent_page)
    list_categories = async_pages(overview.category_page)
    list_events = async_pages(overview.event_page)
    event_page = async_method(overview.event_page)
    relations = async_method(overview.relations)
