"""The plan of a run: a three-way comparison of the snapshot, the store's entries and the files."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mnema_cli.mirror.rules.actions import (
    ORDER,
    Action,
    Conflict,
    CreateEntry,
    DeleteFile,
    FoundFile,
    FoundFiles,
    Refuse,
    RestoreEntry,
    SoftDeleteEntry,
    SyncPlan,
    UpdateEntry,
    UpdateFile,
    WriteFile,
)
from mnema_cli.mirror.rules.entries import (
    OPEN,
    Draft,
    MirrorEntry,
    Span,
    hash_content,
    id_of_name,
    name_conversations,
    place_of,
)
from mnema_cli.mirror.rules.file_paths import FreePaths
from mnema_cli.mirror.rules.mass_deletion import MassDeletionPolicy, hold_mass_deletion
from mnema_cli.mirror.rules.snapshot import Intent, Record, Snapshot, Stamp
from mnema_cli.mirror.rules.sorted_files import sort_files


def plan_sync(
    snapshot: Snapshot,
    entries: Sequence[MirrorEntry],
    found: FoundFiles,
    policy: MassDeletionPolicy | None = None,
    deleted: Mapping[str, MirrorEntry] | None = None,
    held: Collection[str] = (),
) -> SyncPlan:
    """Return the actions that bring both sides into step, in a fixed order, and the records that go with them.

    `deleted` are soft-deleted entries: a file that comes back restores its entry. The ids in `held` are left alone.
    """
    in_files = (file.content.conversation_id for file in found.files if file.content)
    conversations = name_conversations([*in_files, *(entry.conversation_id for entry in entries)])
    sorted_files = sort_files(snapshot, {entry.id for entry in entries}, found.files, conversations)
    sorted_files.held.update(held)
    stored = {entry.id: entry for entry in entries}
    gone = deleted or {}
    paths = FreePaths(file.path for file in found.files)
    actions: list[Action] = list(sorted_files.refused)
    records: dict[str, Record] = {}
    for entry_id in sorted(stored.keys() | sorted_files.by_id.keys() | snapshot.records.keys()):
        known = snapshot.records.get(entry_id)
        if entry_id in sorted_files.held:
            step = _Step(None, known)
        else:
            pair = _Pair(entry_id, stored.get(entry_id), sorted_files.by_id.get(entry_id), gone.get(entry_id))
            step = _compare_sides(_settle_record(known, pair), pair)
        actions += [step.action] if step.action else []
        if record := known if isinstance(step.action, Refuse) else step.record:
            records[entry_id] = record
    actions += [_create_from(file, snapshot, conversations) for file in sorted_files.new]
    actions = hold_mass_deletion(actions, found, snapshot, policy or MassDeletionPolicy())
    ordered = sorted(actions, key=lambda action: (ORDER.index(type(action)), action.path, _id_of(action)))
    placed = paths.place_files(ordered)
    return SyncPlan(tuple(placed), _mark_intents(placed, records, {file.path: file.stamp for file in found.files}))


def _create_from(file: FoundFile, snapshot: Snapshot, conversations: Mapping[str, str]) -> CreateEntry:
    content = file.content
    place = place_of(file.path, conversations) or ("", None)
    assert content is not None  # files without content were refused
    draft = Draft(
        content.text,
        content.conversation_id or place[0] or "",
        content.role or place[1] or "memory",
        content.created_at,
        content.summary_kind,
        content.span or OPEN,
    )
    pending = snapshot.pending.get(file.path)
    key = pending.key if pending and pending.text_hash == file.text_hash else None
    return CreateEntry(file.path, file.text_hash, draft, key)


@dataclass(frozen=True, slots=True)
class _Pair:
    id: str
    entry: MirrorEntry | None
    file: FoundFile | None
    deleted: MirrorEntry | None = None


@dataclass(frozen=True, slots=True)
class _Step:
    action: Action | None
    record: Record | None


def _settle_record(record: Record | None, pair: _Pair) -> Record | None:
    """Return the record as it would be if the last run had ended well: a change that it made is in step.

    Return None if nothing is known of the entry, if the side that the run deleted has come back, or if it is unclear
    whether the run made its change and somebody undid it. Without a record both texts are kept.
    """
    if record is None or record.intent is None:
        return record if record and record.text_hash else None
    intent = record.intent
    settled = replace(record, intent=None)
    if intent.side == "store":
        now = pair.entry.content_hash if pair.entry else None
        untouched = pair.entry is not None and pair.entry.version == intent.version
        version = pair.entry.version if pair.entry else None
    else:
        now = pair.file.text_hash if pair.file else None
        untouched = _is_untouched(pair.file.stamp if pair.file else None, intent.stamp)
        version = intent.version
    if now == intent.text_hash:
        return replace(settled, text_hash=now, version=version, stamp=None) if now else None
    if record.text_hash is None and intent.side == "file" and intent.stamp is None and now and intent.text_hash:
        return replace(
            settled, text_hash=intent.text_hash, version=version
        )  # the run wrote it, then somebody edited it
    is_unclear = now == record.text_hash and not untouched
    if intent.side == "store" and intent.text_hash and now not in (None, record.text_hash):
        is_unclear = True  # somebody changed the entry, perhaps after the run did
    return None if is_unclear or not record.text_hash else settled


def _is_untouched(stamp: Stamp | None, before: Stamp | None) -> bool:
    """Return True if the file is the one from before the run. To take it and put it back changes its ctime."""
    if stamp is None or before is None:
        return stamp == before
    return replace(stamp, ctime_ns=0) == replace(before, ctime_ns=0)


def _compare_sides(base: Record | None, pair: _Pair) -> _Step:
    entry = pair.entry
    file = pair.file
    if entry is not None and file is not None:
        return _compare_both(base, entry, file)
    if entry is not None:
        return _without_file(base, entry)
    if file is not None:
        return _without_entry(base, pair, file)
    return _Step(None, None)


def _compare_both(base: Record | None, entry: MirrorEntry, file: FoundFile) -> _Step:
    stored = entry.content_hash
    span = _span_of(file, entry)
    there = hash_content(file.content.text, span) if file.content else file.text_hash
    if file.content and (reason := _changed_field(entry, file)):
        return _Step(Refuse(file.path, reason), base)
    moved = replace(base, path=file.path) if base else Record(file.path, None, None)
    update_file = UpdateFile(file.path, file.text_hash, entry)
    if stored == there:
        record = Record(file.path, stored, entry.version, file.stamp if file.is_settled and file.id else None)
        return _Step(update_file if file.id is None else None, record)
    if base is not None and there == base.text_hash:
        return _Step(update_file, moved)
    if base is None or stored != base.text_hash:
        reason = "the file and the server changed since they were last in step"
        return _Step(Conflict(file.path, entry.id, file.text_hash, entry, reason), moved)
    if file.content is None or not file.content.text.strip():
        return _Step(Refuse(file.path, "the file has no text; delete the file to delete the entry"), base)
    return _Step(UpdateEntry(file.path, file.text_hash, file.content.text, entry, span), moved)


def _span_of(file: FoundFile, entry: MirrorEntry) -> Span:
    """Return the span that a file stands for: without front matter, that of its entry."""
    return entry.span if file.content is None or file.content.span is None else file.content.span


def _changed_field(entry: MirrorEntry, file: FoundFile) -> str | None:
    content = file.content
    for key, there, here in (
        ("conversation_id", entry.conversation_id, content and content.conversation_id),
        ("role", entry.role, content and content.role),
    ):
        if here is not None and here != there:
            return f"{key} is `{there}` and cannot become `{here}`; change it back, or remove `id` to make a new entry"
    return None


def _without_file(base: Record | None, entry: MirrorEntry) -> _Step:
    if base is None:
        return _Step(WriteFile("", entry), None)
    if base.text_hash == entry.content_hash and base.version == entry.version:
        return _Step(SoftDeleteEntry(base.path, entry), base)
    reason = "the file was deleted, but the server changed the entry; its file is written again"
    return _Step(Conflict(base.path, entry.id, None, entry, reason), base)


def _without_entry(base: Record | None, pair: _Pair, file: FoundFile) -> _Step:
    entry_id = pair.id
    if base is None and pair.deleted is not None and id_of_name(file.path) == entry_id:  # a copy restores nothing
        return _restore_entry(pair.deleted, file)
    if base is None:
        reason = f"no entry of this user has the id {entry_id}; remove the line `id:` to make a new entry of it"
        return _Step(Refuse(file.path, reason), None)
    if file.text_hash == base.text_hash:
        return _Step(DeleteFile(file.path, entry_id, file.text_hash), base)
    reason = "the server deleted the entry, but the file was edited"
    return _Step(Conflict(file.path, entry_id, file.text_hash, None, reason), replace(base, path=file.path))


def _restore_entry(entry: MirrorEntry, file: FoundFile) -> _Step:
    if file.content and (reason := _changed_field(entry, file)):
        return _Step(Refuse(file.path, reason), None)
    if file.content is None or not file.content.text.strip():
        return _Step(Refuse(file.path, "the file has no text; write some to restore its entry"), None)
    return _Step(RestoreEntry(file.path, file.text_hash, file.content.text, entry, _span_of(file, entry)), None)


def _id_of(action: Action) -> str:
    match action:
        case WriteFile(entry=entry):
            return entry.id
        case _:
            return ""


def _mark_intents(
    actions: Iterable[Action], records: dict[str, Record], stamps: Mapping[str, Stamp | None]
) -> dict[str, Record]:
    """Return the records with what each action is about to do. Held deletions keep their old records."""
    planned: dict[str, tuple[str, Intent]] = {}
    for action in actions:
        match action:
            case UpdateEntry(path, _, text, entry, span) | RestoreEntry(path, _, text, entry, span):
                planned[entry.id] = path, Intent("store", hash_content(text, span), entry.version)
            case SoftDeleteEntry(path, entry):
                planned[entry.id] = path, Intent("store", None, entry.version)
            case UpdateFile(path, _, entry) | WriteFile(path, entry):
                planned[entry.id] = path, Intent("file", entry.content_hash, entry.version, stamps.get(path))
            case Conflict(path, entry_id, _, None, _) | DeleteFile(path, entry_id, _):
                planned[entry_id] = path, Intent("file", None, None, stamps.get(path))
            case Conflict(path, entry_id, _, entry, _) if entry is not None:
                planned[entry_id] = path, Intent("file", entry.content_hash, entry.version, stamps.get(path))
            case _:
                continue
    for entry_id, (path, intent) in planned.items():
        base = records.get(entry_id) or Record(path, None, None)
        records[entry_id] = replace(base, path=path, intent=intent)
    return records
