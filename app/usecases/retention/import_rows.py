"""The rows that an import stores for the records of an export, after the tenant's rules."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from app.config.loader import Policies
from app.domain.agent_state.store_items import MAX_TEXTS, Batch, PutItem, check_batch, indexed_texts
from app.domain.consent import patches
from app.domain.errors import InvalidInput, OtherUser
from app.domain.facts.fact import value_key
from app.domain.ids import past_moment
from app.domain.memory.memory import MemoryType
from app.domain.memory.procedures import check_steps
from app.domain.principal import Principal
from app.domain.retention.portable import PortableRecord
from app.domain.text_rules import check_text, text_key
from app.storage.agent_state.store_items import path_of
from app.storage.change_batch import hex_bytes
from app.storage.consent.patches import value_item

PAST: Final = {
    "memory": ("created_at", "updated_at", "stored_at"),
    "history": ("ts",),
    "fact": ("created_at", "updated_at"),
    "fact_history": ("ts",),
    "context_patch": ("created_at",),
    "context_history": ("ts",),
}
"""The times of each kind that lie in the past: later changes must come after them."""
OWNER_FIELD: Final = {"history": "memory_id", "fact_history": "fact_id", "context_history": "patch_id"}


def build_row(
    policies: Policies, principal: Principal, user_id: str, record: PortableRecord, now: datetime
) -> dict[str, Any]:
    """Return the row of a record. Raise OtherUser, UnknownCategory, EmptyText, TextTooLong or InvalidInput."""
    row = dict(record.fields)
    named = {image["user_id"] for image in _images(record.kind, row).values()}
    if not {record.named_user, *named} <= {None, user_id}:
        raise OtherUser()
    for name in PAST.get(record.kind, ()):
        if row.get(name) is not None:
            past_moment(datetime.fromisoformat(row[name]), now, name)
    if "category" in row:
        policies.categories.get_category(row["category"], principal)
    return row | _own_fields(policies, record.kind, row)


def _own_fields(policies: Policies, kind: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that are not in the record, or not as they are stored."""
    match kind:
        case "memory":
            return _memory_fields(policies, row)
        case "fact":
            if (row["form"] == "ranked") != (row["rank"] is not None):
                raise InvalidInput("rank: a ranked fact has one, a single one has none")
            return {"value_key": value_key(row["value"])}
        case "context_patch":
            if policies.consent.is_sensitive(row["field"]) and not row["sensitive"]:
                raise InvalidInput("sensitive: the field needs the user's consent here, and the proposal had none")
            return {"value_key": hex_bytes(patches.value_key(row["value"]))}
        case "context_value":
            return {"item": value_item(row["field"], row["value"])}
        case "item":
            return _item_fields(row)
        case "history" | "fact_history" | "context_history":
            owner = row[OWNER_FIELD[kind]]
            images = {name: image | {"id": owner} for name, image in _images(kind, row).items() if "id" in image}
            refs = {name: row.get(name) for name in ("old_ref", "new_ref")}
            return {"memory_id": owner, "meta": row["meta"] | images, **refs}
        case _:
            return {}


def _memory_fields(policies: Policies, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the checked texts of a memory, and the key of its text. A memory of facts may be as long as a turn."""
    limits = policies.write.text_limits
    procedural = row["type"] == MemoryType.procedural
    if {row["category"] == "procedural", row["steps_text"] is not None} != {procedural}:
        raise InvalidInput("type procedural, category procedural and steps_text go together")
    told = row["fact_topic"] is not None
    kind = MemoryType.turn if told else MemoryType.semantic if procedural else row["type"]
    text = check_text(row["text"], kind, limits, False)
    steps = check_steps(check_text(row["steps_text"], row["type"], limits, False)) if procedural else None
    key = hashlib.sha256(f"FACT\n{row['fact_topic']}\n{text}".encode()).digest() if told else text_key(text)
    return {"text": text, "steps_text": steps, "text_hash": hex_bytes(key)}


def _item_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    if (row["ttl_s"] is None) != (row["expires_at"] is None):
        raise InvalidInput("ttl_s and expires_at go together")
    put = PutItem(tuple(row["namespace"]), row["key"], row["value"])
    check_batch(Batch(puts=(put,)))
    if len(texts_of_item(row)) > MAX_TEXTS:
        raise InvalidInput(f"an item has at most {MAX_TEXTS} indexed texts")
    return {"path": path_of(put.namespace), "size": put.value_bytes}


def texts_of_item(row: Mapping[str, Any]) -> list[str]:
    """Return the texts of an item that are embedded."""
    return indexed_texts(PutItem((), row["key"], row["value"], tuple(row["indexed"] or ())))


def said_texts(kind: str, row: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the texts of a row, and the turns that it was learnt from: none of them may have been erased."""
    if kind == "fact":
        return [], [row["source_message_id"]] if row["source_message_id"] else []
    if kind == "context_patch":
        return [row["value"]], []
    images = [row] if kind == "memory" else list(_images(kind, row).values())
    texts = [image[name] for image in images for name in ("text", "steps_text") if isinstance(image.get(name), str)]
    sources = [image["source"] for image in images if isinstance(image.get("source"), dict)]
    return texts, [source["turn_id"] for source in sources if isinstance(source.get("turn_id"), str)]


def _images(kind: str, row: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the images `before` and `after` of an entry, as far as it has them; other records have none."""
    if kind not in ("history", "fact_history"):
        return {}
    return {name: row["meta"][name] for name in ("before", "after") if name in row["meta"]}
