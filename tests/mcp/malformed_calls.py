"""Calls of the tools as models send them, as data: the arguments, what they mean, and what is told of the change."""

from dataclasses import dataclass, field
from typing import Any

MEMORY_ID = "01999c1e-5e1c-7c1e-8b0e-2f6f0c3b9a11"


@dataclass(frozen=True)
class Sent:
    """Arguments of one tool. `means` are the proper arguments, None if the call is refused with `code`.

    `told` are the paths of the changes.
    """

    tool: str
    given: dict[str, Any]
    means: dict[str, Any] | None
    told: list[str] = field(default_factory=list)
    code: str = "invalid_request"


def query(given: dict[str, Any], means: dict[str, Any] | None, *told: str, code: str = "invalid_request") -> Sent:
    """Return a query of the supervisor for milk."""
    asked = {"agent": "supervisor", "query": "milk"}
    return Sent("memory_query", asked | given, None if means is None else asked | means, list(told), code)


def remember(given: dict[str, Any], means: dict[str, Any] | None, *told: str, code: str = "invalid_request") -> Sent:
    """Return a memory of Maya's."""
    usual = {"user_id": "maya", "category": "tasks", "text": "Maya has a dog."}
    return Sent("memory_remember", usual | given, None if means is None else usual | means, list(told), code)


MAYA = {"filters": {"user_id": "maya"}}
CALLS = {
    "a number as text": query({"top_k": "3"}, {"top_k": 3}, "top_k"),
    "a number as text with blanks": query({"top_k": " 3 "}, {"top_k": 3}, "top_k"),
    "a whole number as a decimal text": query({"budget_tokens": "512.0"}, {"budget_tokens": 512}, "budget_tokens"),
    "a share as text": query({"threshold": "0.5"}, {"threshold": 0.5}, "threshold"),
    "a share without its zero": query({"min_relevance": ".25"}, {"min_relevance": 0.25}, "min_relevance"),
    "true as text": query({"explain": "true"}, {"explain": True}, "explain"),
    "True of Python": query({"explain": "True"}, {"explain": True}, "explain"),
    "false within filters": query({"filters": {"pinned": "false"}}, {"filters": {"pinned": False}}, "filters.pinned"),
    "a number within filters": query(
        {"filters": {"importance_min": "3"}}, {"filters": {"importance_min": 3}}, "filters.importance_min"
    ),
    "a list as JSON": query({"categories": '["tasks", "goals"]'}, {"categories": ["tasks", "goals"]}, "categories"),
    "an empty list as JSON": query({"categories": "[]"}, {"categories": []}, "categories"),
    "a list of one as its entry": query({"categories": "tasks"}, {"categories": ["tasks"]}, "categories"),
    "a list with commas": query({"categories": "tasks, goals"}, {"categories": ["tasks", "goals"]}, "categories"),
    "a list of ids as JSON": query({"exclude_ids": f'["{MEMORY_ID}"]'}, {"exclude_ids": [MEMORY_ID]}, "exclude_ids"),
    "one id for a list": query({"exclude_ids": MEMORY_ID}, {"exclude_ids": [MEMORY_ID]}, "exclude_ids"),
    "filters as JSON": query({"filters": '{"user_id": "maya"}'}, MAYA, "filters"),
    "filters as JSON with a number as text": query(
        {"filters": '{"user_id": "maya", "importance_min": "2"}'},
        {"filters": {"user_id": "maya", "importance_min": 2}},
        "filters",
        "filters.importance_min",
    ),
    "null for a switch": query({"explain": None}, {}, "explain"),
    "null for the form": query({"return": None}, {}, "return"),
    "null where it means no filter": query({"filters": {"user_id": "maya", "role": None}, "top_k": None}, MAYA),
    "an agent in capitals": query({"agent": "SUPERVISOR"}, {}, "agent"),
    "an agent with a capital": query({"agent": " Supervisor"}, {}, "agent"),
    "an agent in a list": query({"agent": ["supervisor"]}, {}, "agent"),
    "a category with a capital": query({"categories": ["Tasks"]}, {"categories": ["tasks"]}, "categories.0"),
    "a category in capitals, not in a list": query(
        {"categories": "TASKS"}, {"categories": ["tasks"]}, "categories", "categories.0"
    ),
    "a category of the filters with a capital": query(
        {"filters": {"category": "Tasks"}}, {"filters": {"category": "tasks"}}, "filters.category"
    ),
    "a category of the filters in a list": query(
        {"filters": {"category": ["tasks"]}}, {"filters": {"category": "tasks"}}, "filters.category"
    ),
    "a word in capitals": query({"return": "FULL"}, {"return": "full"}, "return"),
    "a user beside the filters": query({"user_id": "maya"}, MAYA, "filters.user_id"),
    "a user beside filters of null": query({"user_id": "maya", "filters": None}, MAYA, "filters.user_id"),
    "a user beside filters as JSON": query(
        {"user_id": "maya", "filters": '{"pinned": true}'},
        {"filters": {"pinned": True, "user_id": "maya"}},
        "filters",
        "filters.user_id",
    ),
    "the same user twice": query({"user_id": "maya", **MAYA}, MAYA, "filters.user_id"),
    "a category beside the filters": query(
        {"category": "tasks"}, {"filters": {"category": "tasks"}}, "filters.category"
    ),
    "categories within the filters": query(
        {"filters": {"user_id": "maya", "categories": ["tasks"]}}, {**MAYA, "categories": ["tasks"]}, "categories"
    ),
    "a count within the filters": query(
        {"filters": {"user_id": "maya", "top_k": "2"}}, {**MAYA, "top_k": 2}, "top_k", "top_k"
    ),
    "humps": query({"topK": 3, "budgetTokens": 400}, {"top_k": 3, "budget_tokens": 400}, "top_k", "budget_tokens"),
    "humps and a number as text": query({"topK": "3"}, {"top_k": 3}, "top_k", "top_k"),
    "humps of a filter": query({"userId": "maya"}, MAYA, "filters.user_id"),
    "capitals of an abbreviation": query({"userID": "maya"}, MAYA, "filters.user_id"),
    "humps within the filters": query({"filters": {"userId": "maya"}}, MAYA, "filters.user_id"),
    "hyphens": query({"top-k": 3}, {"top_k": 3}, "top_k"),
    "a user that is a number": query({"filters": {"user_id": 7}}, {"filters": {"user_id": "7"}}, "filters.user_id"),
    "importance as text": remember({"importance": "4"}, {"importance": 4}, "importance"),
    "tags as JSON": remember({"tags": '["dog"]'}, {"tags": ["dog"]}, "tags"),
    "one tag": remember({"tags": "dog, cat"}, {"tags": ["dog, cat"]}, "tags"),
    "metadata as JSON": remember({"metadata": '{"a": ["1"]}'}, {"metadata": {"a": ["1"]}}, "metadata"),
    "a source as JSON": remember({"source": '{"turn_id": "t1"}'}, {"source": {"turn_id": "t1"}}, "source"),
    "nulls for what has a default": remember(
        {"pinned": None, "tags": None, "metadata": None, "type": None}, {}, "pinned", "tags", "metadata", "type"
    ),
    "a writable category with a capital": remember({"category": "TASKS"}, {}, "category"),
    "a type with a capital": remember({"type": "Semantic"}, {"type": "semantic"}, "type"),
    "a thread that is a number": remember({"threadId": 12}, {"thread_id": "12"}, "thread_id", "thread_id"),
    "humps of an id": Sent(
        "memory_history", {"memoryId": MEMORY_ID}, {"memory_id": MEMORY_ID}, ["memory_id"], "not_found"
    ),
    "a page size as text": Sent(
        "memory_history",
        {"memory_id": MEMORY_ID, "limit": "5"},
        {"memory_id": MEMORY_ID, "limit": 5},
        ["limit"],
        "not_found",
    ),
    "facts of a number": Sent("memory_facts", {"userId": 7}, {"user_id": "7"}, ["user_id", "user_id"]),
    "a user of null beside no filters": query({"user_id": None}, None),
    "a user of null beside the filters": query({"user_id": None, "filters": {"pinned": True}}, None),
    "a user of null within the filters, with a hump": query({"filters": {"userId": None}}, None),
    "two users": query({"user_id": "ben", **MAYA}, None),
    "two spellings with two values": query({"topK": 3, "top_k": 4}, None),
    "a thread as a filter, which selects nothing": query({"filters": {"thread_id": "t"}}, None),
    "an empty user is no left-out user": query({"filters": {"user_id": ""}}, None),
    "a user as the text null": query({"filters": {"user_id": "null"}}, {"filters": {"user_id": "null"}}),
    "a number in words": query({"top_k": "three"}, None),
    "a number with a rest": query({"top_k": "3 items"}, None),
    "half a number": query({"top_k": "3.5"}, None),
    "a number out of range": query({"top_k": "51"}, None, "top_k"),
    "digits of another script": query({"top_k": "３"}, None),
    "yes": query({"explain": "yes"}, None),
    "broken JSON": query({"filters": '{"user_id": "maya"'}, None),
    "a list for the filters": query({"filters": '["maya"]'}, None),
    "filters within filters": query({"filters": {"filters": {"user_id": "maya"}}}, None),
    "an unknown argument": query({"colour": "red"}, None),
    "two agents": query({"agent": ["supervisor", "planner"]}, None),
    "an unknown agent": query({"agent": "Butler"}, None, code="unknown_agent"),
    "a category of another agent": query(
        {"categories": "Projects"}, None, "categories", "categories.0", code="category_not_allowed"
    ),
    "no category": query({"categories": ["task list"]}, None, code="category_not_allowed"),
    "a text that is null": remember({"text": None}, None, "text"),
}
