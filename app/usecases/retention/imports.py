"""Import of a user's export into this tenant. Each record is inserted or refused on its own; none is changed."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from app.config.loader import Policies
from app.config.tenant_policies import TenantPolicies
from app.domain.agent_state.store_items import MAX_TEXTS, Batch, PutItem, check_batch, indexed_texts
from app.domain.consent import patches
from app.domain.errors import ErasedText, IdTaken, InvalidInput, MnemaError, OtherUser, PlaceTaken, RecordMissing
from app.domain.facts.fact import value_key
from app.domain.ids import past_moment
from app.domain.jobs.job import JobKind, NewJob
from app.domain.memory.memory import MemoryType
from app.domain.memory.procedures import check_steps
from app.domain.principal import Principal
from app.domain.retention.portable import PortableRecord
from app.domain.text_rules import check_text, text_key
from app.domain.tombstones import compute_tombstones
from app.ports import Clock, Embedder, Vector
from app.storage.agent_state.store_items import path_of
from app.storage.change_batch import hex_bytes
from app.storage.consent.patches import value_item
from app.storage.engine import LONG_S
from app.storage.jobs.jobs import JobStorage
from app.storage.retention.imports import ImportStorage
from app.storage.uow import UnitOfWork, WriteTx
from app.usecases.memory.bulk import line_error
from app.usecases.retention.import_files import ImportFiles
from app.usecases.tenancy.limits import Limits

BATCH: Final = 200
"""The most records of a kind that are stored in one transaction."""
BATCH_BYTES: Final = 1 << 20
"""The bytes of lines after which a batch is stored."""
UNAVAILABLE: Final = 503
"""The status of errors that concern the whole batch: something does not answer."""
CONTENT: Final = "file_content"
COUNTED: Final = frozenset({"memory", "fact", "item", "artifact"})
"""The kinds whose records the tenant's quota counts, as writes of them are counted elsewhere."""
FILE_BYTES: Final = 64 << 20
"""The bytes of lines after which no more parts of a file are kept."""
REFUSALS: Final = {"id_taken": IdTaken, "conflict": PlaceTaken, "missing": RecordMissing}
Outcome: TypeAlias = Literal["imported", "unchanged", "left_out"] | MnemaError
"""The action on a record, or the error that refuses it."""
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


@dataclass(frozen=True, slots=True)
class ImportLine:
    """A line: its number (from 1), its length in bytes, and its record or the error that refuses it."""

    number: int
    size: int
    record: PortableRecord | MnemaError


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of a line. `record`: the record with the ids under which it is stored; None if the line holds none."""

    number: int
    outcome: Outcome
    record: PortableRecord | None = None


Row: TypeAlias = dict[str, Any]


@dataclass(slots=True)
class _Group:
    """Lines that are answered together: rows of a kind with different ids, the parts of a file, or one other line."""

    kind: str = ""
    lines: list[ImportLine] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    size: int = 0

    def takes(self, line: ImportLine) -> bool:
        """Return True if the line belongs to the group and there is room for it."""
        record = line.record
        if isinstance(record, MnemaError) or record.is_left_out or record.kind != self.kind:
            return False
        if self.kind == CONTENT:
            return record.id in self.ids and record.fields["part"] == len(self.lines) and self.size < FILE_BYTES
        return record.id not in self.ids and len(self.lines) < BATCH and self.size + line.size <= BATCH_BYTES

    def add(self, line: ImportLine) -> None:
        """Add the line."""
        self.lines.append(line)
        self.size += line.size
        if isinstance(line.record, PortableRecord) and not line.record.is_left_out:
            self.kind = line.record.kind
            self.ids.add(line.record.id)


async def _group_lines(lines: AsyncIterator[ImportLine]) -> AsyncIterator[_Group]:
    group = _Group()
    async for line in lines:
        if group.lines and not group.takes(line):
            yield group
            group = _Group()
        group.add(line)
    if group.lines:
        yield group


@dataclass(frozen=True)
class ImportUser:
    """The use-case that imports a user's export. Repeating an import changes nothing."""

    uow: UnitOfWork
    storage: ImportStorage
    jobs: JobStorage
    files: ImportFiles
    embedder: Embedder
    policies: TenantPolicies
    limits: Limits
    clock: Clock
    secret: bytes = field(repr=False)

    async def import_lines(
        self, principal: Principal, user_id: str, lines: AsyncIterator[ImportLine], *, new_ids: bool
    ) -> AsyncIterator[ImportResult]:
        """Yield a result for each line, in their order, batch by batch. At the end queue the work on vectors."""
        lack_vectors = False
        try:
            async for group in _group_lines(lines):
                results = await self._store_group(principal, user_id, group, new_ids)
                lack_vectors |= group.kind == "memory" and any(result.outcome == "imported" for result in results)
                for result in results:
                    yield result
        finally:
            if lack_vectors:
                await self.jobs.enqueue_jobs(principal, [NewJob(JobKind.embed)])

    async def _store_group(
        self, principal: Principal, user_id: str, group: _Group, new_ids: bool
    ) -> list[ImportResult]:
        records: dict[int, PortableRecord] = {}
        for line in group.lines:
            if isinstance(line.record, MnemaError):
                return [ImportResult(line.number, line.record)]
            if line.record.is_left_out:
                return [ImportResult(line.number, "left_out", line.record)]
            records[line.number] = line.record.with_new_ids(principal.tenant_id) if new_ids else line.record
        outcomes: Mapping[int, Outcome]
        if group.kind == CONTENT:
            outcome = await self.files.store_content(principal, user_id, list(records.values()))
            outcomes = dict.fromkeys(records, outcome)
        else:
            outcomes = await self._store_rows(principal, user_id, group.kind, records)
        return [ImportResult(number, outcomes[number], record) for number, record in records.items()]

    async def _store_rows(
        self, principal: Principal, user_id: str, kind: str, records: Mapping[int, PortableRecord]
    ) -> dict[int, Outcome]:
        """Store records of one kind together; if that fails for a reason in one of them, each on its own."""
        rows: list[Row] = []
        outcomes: dict[int, Outcome] = {}
        for number, record in records.items():
            try:
                row = build_row(self.policies.of(principal), principal, user_id, record, self.clock.now())
                if kind in COUNTED:
                    await self.limits.take_quota(principal)
                rows.append(row | {"n": number})
                await asyncio.sleep(0)  # a long text takes a while; let other requests run
            except Exception as error:
                outcomes[number] = line_error(error)
        stored = await self._store_checked(principal, user_id, kind, rows)
        if kind in COUNTED:
            for outcome in stored.values():
                if outcome != "imported":
                    self.limits.give_back(principal)
        return outcomes | stored

    async def _store_checked(
        self, principal: Principal, user_id: str, kind: str, rows: Sequence[Row]
    ) -> dict[int, Outcome]:
        if not rows:
            return {}
        try:
            return await self._store_together(principal, user_id, kind, rows)
        except Exception as error:
            failure = line_error(error)
            if len(rows) == 1 or failure.status == UNAVAILABLE:
                return {row["n"]: failure for row in rows}
        outcomes: dict[int, Outcome] = {}
        for row in rows:
            outcomes |= await self._store_checked(principal, user_id, kind, [row])
        return outcomes

    async def _store_together(
        self, principal: Principal, user_id: str, kind: str, rows: Sequence[Row]
    ) -> dict[int, Outcome]:
        vectors = await self._embed_items(rows) if kind == "item" else {}
        if kind == "artifact":
            rows = await self.files.store_payloads(principal, user_id, rows)
        hashes = await self._hash_texts(principal, user_id, kind, rows)
        async with self.uow.write(principal, timeout_s=LONG_S) as tx:
            await self.storage.lock_user(tx, principal, user_id)
            erased = await self._find_erased(tx, principal, hashes)
            left = [row for row in rows if row["n"] not in erased]
            outcomes = await self.storage.put_rows(tx, principal, user_id, kind, left) if left else {}
            if vectors:
                new = {row["id"] for row in left if outcomes[row["n"]] == "imported"}
                await self.storage.put_vectors(tx, principal, {each: vectors[each] for each in new & vectors.keys()})
        return {row["n"]: ErasedText() if row["n"] in erased else _outcome(outcomes[row["n"]]) for row in rows}

    async def _hash_texts(
        self, principal: Principal, user_id: str, kind: str, rows: Sequence[Row]
    ) -> dict[int, list[bytes]]:
        """Return the tombstones that the texts of each row, and the turns that it was learnt from, would have."""
        hashes = {}
        for row in rows:
            said = said_texts(kind, row)
            hashes[row["n"]] = compute_tombstones(self.secret, principal.tenant_id, user_id, *said)
            await asyncio.sleep(0)
        return hashes

    async def _find_erased(self, tx: WriteTx, principal: Principal, hashes: Mapping[int, Sequence[bytes]]) -> set[int]:
        """Return the numbers of the rows that hold an erased text, or were learnt from an erased turn."""
        every = [each for found in hashes.values() for each in found]
        erased = await self.storage.find_erased(tx, principal, every) if every else set()
        return {number for number, found in hashes.items() if not erased.isdisjoint(found)}

    async def _embed_items(self, rows: Sequence[Row]) -> dict[str, list[Vector]]:
        """Return the vectors of the texts of items by the item's id. Raise EmbedderUnavailable."""
        texts = {row["id"]: texts_of_item(row) for row in rows}
        every = [text for own in texts.values() for text in own]
        vectors = iter(await self.embedder.embed_texts(every) if every else [])
        return {item: [next(vectors) for _text in own] for item, own in texts.items() if own}


def _outcome(outcome: str) -> Outcome:
    if outcome in REFUSALS:
        return REFUSALS[outcome]()
    return "imported" if outcome == "imported" else "unchanged"
