"""The schemas of all prompts bound every list and every text, so that a weak model cannot repeat itself forever."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from app.prompts import ctx_reconciler, episode, fact_extraction, insights, reconcile, same_fact, turn_summary, workflow
from app.prompts.summary import summary_prompt
from app.providers.chat_models.answers import build_reader
from app.providers.chat_models.request_form import drop_bounds

MODULES = (ctx_reconciler, episode, fact_extraction, insights, reconcile, same_fact, turn_summary, workflow)
ANSWERS: dict[str, type[BaseModel]] = {
    **{module.__name__.rpartition(".")[2]: module.Answer for module in MODULES},
    "summary": summary_prompt("", [], 1200).answer,
}


def unbounded(schema: Any, place: str = "") -> Iterator[str]:
    """Yield the places of lists and texts without a bound."""
    if isinstance(schema, dict):
        if schema.get("type") == "array" and "maxItems" not in schema:
            yield place
        if schema.get("type") == "string" and not schema.keys() & {"maxLength", "enum", "const"}:
            yield place
        for name, part in schema.items():
            yield from unbounded(part, f"{place}/{name}")
    elif isinstance(schema, list):
        for part in schema:
            yield from unbounded(part, place)


@pytest.mark.parametrize("name", ANSWERS)
def test_every_list_and_text_has_a_bound(name: str) -> None:
    schema = build_reader(ANSWERS[name]).schema
    assert not list(unbounded(schema))
    assert list(unbounded(drop_bounds(schema)))


def test_a_text_beyond_its_bound_is_read() -> None:
    read = build_reader(ANSWERS["summary"]).read_answer(f'{{"summary": "{"a" * 2000}"}}')
    assert read.value is not None
