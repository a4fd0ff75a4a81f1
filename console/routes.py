"""The pages of the console: addresses, titles and their places in the navigation."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from console.context import PageContext
from console.pages import (
    answer,
    ask,
    events,
    facts,
    graph,
    home,
    jobs,
    keys,
    memories,
    memory,
    people,
    rules,
    sources,
    threads,
    webhooks,
)
from console.pages import bin as bin_page

Show = Callable[[PageContext], Awaitable[None] | None]


@dataclass(frozen=True)
class PageRoute:
    """A page. `shortcut`: the letter after `g` that opens it; "": it is not in the navigation."""

    path: str
    title: str
    show: Show
    icon: str = ""
    shortcut: str = ""
    below: str = ""
    """The page of the navigation that this one belongs to."""


ROUTES = [
    PageRoute("/", "Home", home.show, "home", "h"),
    PageRoute("/memories", "Memories", memories.show, "search", "m"),
    PageRoute("/memories/{memory_id}", "Memory", memory.show, below="/memories"),
    PageRoute("/answers/{query_id}", "Answer", answer.show, below="/threads"),
    PageRoute("/ask", "Ask as an agent", ask.show, "question_answer", "a"),
    PageRoute("/graph", "Graph", graph.show, "hub", "g"),
    PageRoute("/threads", "Threads", threads.show, "forum", "t"),
    PageRoute("/people", "People", people.show, "group", "p"),
    PageRoute("/bin", "Bin", bin_page.show, "delete", "b"),
    PageRoute("/facts", "Facts", facts.show, "fact_check", "f"),
    PageRoute("/sources", "Sources", sources.show, "folder_open", "s"),
    PageRoute("/events", "Events and usage", events.show, "insights", "e"),
    PageRoute("/jobs", "Jobs", jobs.show, "work_history", "j"),
    PageRoute("/rules", "Rules", rules.show, "rule", "r"),
    PageRoute("/webhooks", "Webhooks", webhooks.show, "webhook", "w"),
    PageRoute("/keys", "Keys", keys.show, "vpn_key", "k"),
]
