"""The schemas of all prompts bound every list and every text, so that a weak model cannot repeat itself forever."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from app.domain.rendering.model_text import ModelText
from app.domain.turn_memory.extraction import NO_SPEC, Journal
from app.ports import Prompt
from app.prompts import CHARACTERS_A_TOKEN
from app.prompts.ctx_reconciler import ctx_reconciler_prompt
from app.prompts.episode import episode_prompt
from app.prompts.fact_extraction import fact_extraction_prompt
from app.prompts.insights import insights_prompt
from app.prompts.probe import PROBE
from app.prompts.reconcile import reconcile_prompt
from app.prompts.same_fact import same_fact_prompt
from app.prompts.summary import summary_prompt
from app.prompts.turn_summary import turn_summary_prompt
from app.prompts.workflow import workflow_prompt
from app.providers.chat_models.answers import build_reader
from app.providers.chat_models.schema_bounds import build_schema, drop_bounds

SAID = "I live in Udine, and my dog Bruno is nine years old."
JOURNAL = Journal(ModelText("[PRIOR TURNS]"), ["t2", "t1"], ["t1"], [])
PROMPTS: dict[str, Prompt[Any]] = {
    "ctx_reconciler": ctx_reconciler_prompt(SAID, "t3", "now", JOURNAL),
    "ctx_reconciler, a long message": ctx_reconciler_prompt(SAID * 100, "t3", "now", JOURNAL),
    "episode": episode_prompt([], date(2026, 11, 2), []),
    "fact_extraction": fact_extraction_prompt(SAID * 100, date(2026, 11, 2), {"profile": ""}),
    "insights": insights_prompt({}),
    "probe": PROBE,
    "reconcile": reconcile_prompt([SAID], [SAID, SAID]),
    "same_fact": same_fact_prompt([(SAID, SAID)]),
    "summary": summary_prompt("", [], 1200),
    "turn_summary": turn_summary_prompt(SAID, SAID * 100, NO_SPEC),
    "workflow": workflow_prompt(SAID),
}
NOT_FITTING = {"reconcile", "workflow"}
"""Their answers could be longer than their tokens: hardly a decision has a text, and few workflows have many steps."""


def unbounded(schema: Any, place: str = "") -> Iterator[str]:
    """Yield the places of lists and texts without a bound."""
    if isinstance(schema, dict):
        if schema.get("type") == "array" and "maxItems" not in schema:
            yield place
        if schema.get("type") in ("integer", "number") and "maximum" not in schema:
            yield place
        if schema.get("type") == "string" and not schema.keys() & {"maxLength", "enum", "const"}:
            yield place
        for name, part in schema.items():
            yield from unbounded(part, f"{place}/{name}")
    elif isinstance(schema, list):
        for part in schema:
            yield from unbounded(part, place)


def longest(schema: Any, shapes: Any) -> int:
    """Return the characters of the longest answer that a schema allows, on one line."""
    if reference := schema.get("$ref"):
        return longest(shapes[reference.rpartition("/")[2]], shapes)
    if options := schema.get("anyOf"):
        return max(longest(option, shapes) for option in options)
    if choices := schema.get("enum"):
        return max(len(json.dumps(choice)) for choice in choices)
    match schema.get("type"):
        case "object":
            return 2 + sum(len(name) + 6 + longest(part, shapes) for name, part in schema["properties"].items())
        case "array":
            return 2 + int(schema["maxItems"]) * (2 + longest(schema["items"], shapes))
        case "string":
            return 2 + int(schema["maxLength"])
        case "integer":
            return len(str(schema["maximum"]))
        case _:
            return 5


@pytest.mark.parametrize("name", PROMPTS)
def test_every_list_text_and_number_has_a_bound(name: str) -> None:
    schema = build_schema(PROMPTS[name])
    assert not list(unbounded(schema))
    assert list(unbounded(drop_bounds(schema)))


@pytest.mark.parametrize("name", sorted(PROMPTS.keys() - NOT_FITTING))
def test_the_longest_answer_fits_into_the_tokens(name: str) -> None:
    schema = build_schema(PROMPTS[name])
    assert longest(schema, schema.get("$defs", {})) <= CHARACTERS_A_TOKEN * PROMPTS[name].max_tokens


def test_the_bounds_are_those_of_the_question() -> None:
    schema = build_schema(PROMPTS["ctx_reconciler"])
    assert [schema["properties"][name]["maxItems"] for name in ("turn_ids", "memory_bucket_ids")] == [2, 0]
    assert schema["properties"]["facts"]["items"]["properties"]["quote"]["maxLength"] == 60
    long = build_schema(PROMPTS["ctx_reconciler, a long message"])
    assert long["properties"]["facts"]["maxItems"] < schema["properties"]["facts"]["maxItems"]
    decision = build_schema(PROMPTS["reconcile"])["$defs"]["Memory"]["properties"]
    assert (decision["id"]["maximum"], decision["fact"]["anyOf"][0]["maximum"]) == (2, 0)
    assert drop_bounds(build_reader(PROBE.answer).schema) == drop_bounds(build_schema(PROBE))


def test_a_second_try_has_shorter_lists() -> None:
    prompt = replace(PROMPTS["ctx_reconciler"], max_items=1)
    fields = build_schema(prompt)["properties"]
    assert {name: part["maxItems"] for name, part in fields.items() if part["type"] == "array"} == {
        **dict.fromkeys(("topics", "assertions", "exceptions", "facts", "turn_ids", "local_memories_turn_ids"), 1),
        "memory_bucket_ids": 0,
    }


def test_a_text_beyond_its_bound_is_read() -> None:
    read = build_reader(PROMPTS["summary"].answer).read_answer(f'{{"summary": "{"a" * 2000}"}}')
    assert read.value is not None
