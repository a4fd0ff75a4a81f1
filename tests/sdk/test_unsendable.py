"""A value that no request can hold is the client's own error, and nothing is sent."""

from collections.abc import Callable
from typing import Any

import pytest
from mnema_client import CannotBeSent, Mnema, MnemaError, NewMemory, Retry
from mnema_client.langgraph import MnemaStore

HALF = "a\ud800"
NOWHERE = "http://127.0.0.1:9"
MAYA: dict[str, Any] = {"user_id": "maya", "category": "tasks"}

CALLS: list[Callable[[Mnema], object]] = [
    lambda memory: memory.remember(HALF, **MAYA),
    lambda memory: memory.remember("Tea.", user_id=HALF, category="tasks"),
    lambda memory: memory.remember("Tea.", **MAYA, metadata={"x": HALF}),
    lambda memory: memory.remember("Tea.", **MAYA, metadata={HALF: "x"}),
    lambda memory: memory.remember("Tea.", **MAYA, metadata={"x": float("nan")}),
    lambda memory: memory.remember("Tea.", **MAYA, metadata={"x": [float("inf")]}),
    lambda memory: memory.remember("Tea.", **MAYA, metadata={"x": object()}),
    lambda memory: memory.remember("Tea.", **MAYA, idempotency_key="\u00e4"),
    lambda memory: memory.add_turn(HALF, user_id="maya", thread_id="t", role="user"),
    lambda memory: memory.query(HALF, agent="planner"),
    lambda memory: memory.query("x", agent="planner", threshold=float("nan")),
    lambda memory: memory.edit(HALF, importance=1),
    lambda memory: memory.get("nope"),
    lambda memory: memory.source("nope"),
    lambda memory: memory.delta(HALF),
    lambda memory: list(memory.list(user_id=HALF)),
    lambda memory: list(memory.export(HALF)),
    lambda memory: list(memory.remember_many([NewMemory(text=HALF, **MAYA)])),
    lambda memory: memory.propose("maya", field="city", value=HALF),
    lambda memory: memory.store_facts("maya", text=HALF),
    lambda memory: list(memory.facts("maya", thread_id=HALF)),
    lambda memory: memory.fact_at("maya", HALF, 1),
    lambda memory: memory.answer_fact(HALF, user_id="maya"),
]


@pytest.mark.parametrize("call", CALLS)
def test_what_cannot_be_sent_is_said_before_it_is_tried(call: Callable[[Mnema], object]) -> None:
    with Mnema(NOWHERE, "key", retry=Retry(attempts=1)) as memory, pytest.raises(CannotBeSent) as refused:
        call(memory)
    assert isinstance(refused.value, MnemaError)
    assert isinstance(refused.value, ValueError)
    assert refused.value.code == "cannot_be_sent"


def test_what_is_no_id_is_named() -> None:
    with Mnema(NOWHERE, "key") as memory, pytest.raises(CannotBeSent, match="'nope' is no id: ids of Mnema are UUIDs"):
        memory.get("nope")


def test_the_store_says_so_too() -> None:
    store = MnemaStore(NOWHERE, "key", retry=Retry(attempts=1))
    for value in ({"x": HALF}, {"x": float("nan")}):
        with pytest.raises(CannotBeSent):
            store.put(("notes",), "k", value)
    store.close()
