"""Mapping of facts and statements to and from JSON."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from app.domain.facts.fact import (
    Fact,
    FactKind,
    FactMemory,
    FactOperation,
    FactOutcome,
    FactStatement,
    StatedFact,
    value_key,
)
from app.storage.identity import new_id


def statement_row(statement: FactStatement, actor: str) -> dict[str, Any]:
    """Return a statement in the form that `apply_facts` takes."""
    return {
        "user_id": statement.user_id,
        "thread_id": statement.thread_id,
        "category": statement.category,
        "actor": actor,
        "source_message_id": statement.source_message_id,
        "turn": str(statement.turn) if statement.turn else None,
        "stated_at": statement.stated_at.isoformat(),
        "max_rank": statement.max_rank,
        "names": {key: {"one": names.one, "many": names.many} for key, names in statement.names.items()},
        "operations": [_operation_row(operation) for operation in statement.operations],
    }


def _operation_row(operation: FactOperation) -> dict[str, Any]:
    entries = [
        {"rank": rank, "value": value, "key": value_key(value), "id": str(new_id())}
        for rank, value in operation.entries
    ]
    return {
        "op": operation.op,
        "topic_key": operation.topic_key,
        "entries": entries,
        "ranks": list(operation.ranks),
    }


def fact_from_row(row: Mapping[str, Any]) -> Fact:
    """Build a Fact from a row of columns."""
    return Fact(
        id=row["id"],
        user_id=row["user_id"],
        thread_id=row["thread_id"],
        topic_key=row["topic_key"],
        kind=FactKind(row["kind"]),
        rank=row["rank"],
        value=row["value"],
        category=row["category"],
        source_message_id=row["source_message_id"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        doubted_at=row.get("doubted_at"),
    )


def fact_from_json(row: Mapping[str, Any]) -> Fact:
    """Build a Fact from the JSON that `fact_json` makes."""
    names = ("created_at", "updated_at", "doubted_at")
    times = {name: datetime.fromisoformat(row[name]) for name in names if row.get(name)}
    return fact_from_row({**row, "id": UUID(row["id"]), **times})


def outcome_from_json(answer: Mapping[str, Any]) -> FactOutcome:
    """Build the outcome of one statement from the answer of `apply_facts`."""
    stated = tuple(StatedFact(done["action"], fact_from_json(done["fact"])) for done in answer["done"])
    return FactOutcome(stated, answer["revision"])


def fact_memory_from_json(row: Mapping[str, Any]) -> FactMemory:
    """Build the memory of a topic from what `write_fact_memory` returns."""
    return FactMemory(UUID(row["id"]), row["version"], row["text"])
