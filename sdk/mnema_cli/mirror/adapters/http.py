"""The entries of one user on a Mnema server. Changes are read as they come, and all entries now and then."""

import hashlib
import json
import secrets
from collections.abc import Collection
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import httpx

from mnema_cli.mirror.adapters.requests import (
    MirrorRequests,
    Wait,
    changes_of,
    code_of,
    describe_refusal,
    json_of,
)
from mnema_cli.mirror.rules.entries import SPAN_KEYS, Draft, MirrorEntry, Span
from mnema_cli.mirror.rules.problems import EntryRefused, StateChanged, StoreUnusable

PAGE: Final = 200
ROLES: Final = {"semantic": "memory", "episodic": "memory", "insight": "memory", "summary": "summary"}
"""The mirrored types except turns, and the role of each. Chunks, which belong to documents, and procedures, which have
two texts, are not mirrored.
"""

TURN_ROLES: Final = frozenset({"user", "assistant"})
CLIENT: Final = {"X-Mnema-Client": "mirror"}
KIND: Final = "summary_kind"
GLOBAL: Final = "global"
"""The conversation of memories that belong to no thread."""
PATIENCE_S: Final = 60.0
FIRST_PATIENCE_S: Final = 2.0
"""Seconds of waiting for the first answer: a wrong address should be said soon."""


class HttpMirrorStore:
    """The entries of one user. `category` is for entries that are created from files; turns have their own."""

    def __init__(
        self, client: httpx.Client, user: str, category: str, wait: Wait, patience_s: float = PATIENCE_S
    ) -> None:
        self._requests = MirrorRequests(client, wait, patience_s)
        self._first_request = MirrorRequests(client, wait, min(patience_s, FIRST_PATIENCE_S))
        self._user = user
        self._category = category
        self._entries: dict[str, MirrorEntry] | None = None
        self._cursor = ""
        self._deleted: dict[str, MirrorEntry | None] = {}

    def read_owner(self) -> str:
        """Return the name of the tenant and the user. Raise StoreUnusable if the key cannot read, or StoreAway."""
        response = self._first_request.send("GET", "/changes", params={"user_id": self._user})
        _check_success(response)
        _events, end = changes_of(response)
        return f"{end['tenant_id']}/{self._user}"

    def list_entries(self) -> list[MirrorEntry]:
        """Return all entries that are not deleted: those read before, with what changed since."""
        if self._entries is None:
            self.read_all()
        else:
            self.read_changes()
        return list((self._entries or {}).values())

    def read_all(self) -> None:
        """Read all entries anew. What was purged since is gone then."""
        response = self._send_changes(None)  # before the entries, so that no change is missed
        _check_success(response)
        _events, begun = changes_of(response)
        entries: dict[str, MirrorEntry] = {}
        for kind in ("turn", *ROLES):
            place = None
            while True:
                page = self._requests.read("/memory", user_id=self._user, type=kind, limit=PAGE, cursor=place)
                for memory in page["items"]:
                    if entry := entry_of(memory):
                        entries[entry.id] = entry
                if (place := page["next_cursor"]) is None:
                    break
        self._entries = entries
        self._cursor = str(begun["next_cursor"])
        self._deleted.clear()
        self.read_changes()

    def read_changes(self) -> bool:
        """Read what changed since the last time. Return True if an entry did."""
        if self._entries is None:
            self.read_all()
            return True
        before = dict(self._entries)
        more = True
        while more:
            response = self._send_changes(self._cursor)
            if code_of(response) in ("cursor_of_other_database", "invalid_cursor"):  # such as after a restore
                self.read_all()
                break
            _check_success(response)
            events, end = changes_of(response)
            for event in events:
                if event["memory"] is not None:
                    self._note(event["memory"])
                else:
                    self._forget(event["memory_id"])
            self._cursor = str(end["next_cursor"])
            more = bool(end["more"])
        return before != self._entries

    def create_entry(self, draft: Draft, key: str) -> MirrorEntry:
        """Create an entry and return it. The same key and draft return the first result. Raise EntryRefused."""
        path, body = self._creation(draft)
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]
        headers = CLIENT | {"Idempotency-Key": f"mirror-{key}-{digest}"}
        response = self._requests.send("POST", path, json=body, headers=headers)
        if not response.is_success:
            raise EntryRefused(describe_refusal(response))
        written = json_of(response)
        if written["id"] is None:
            raise EntryRefused(f"the server does not store this text: {written.get('reason')}")
        response = self._requests.send("GET", f"/memory/{written['id']}")
        if not response.is_success:
            raise EntryRefused("the server has deleted this text for good; change it to store it again")
        memory = json_of(response)
        self._note(memory)
        if entry := entry_of(memory | {"state": "active"}):  # a deleted one is noticed by the next run
            return entry
        raise EntryRefused(f"the text joined the memory {written['id']}, which is not mirrored")

    def update_entry(self, entry: MirrorEntry, text: str, span: Span) -> MirrorEntry:
        """Give the entry this text and span and return it as it is stored. Raise StateChanged or EntryRefused."""
        before = {"text": entry.text, **entry.span.write_moments()}
        wanted = {"text": text, **span.write_moments()}
        changes = {name: value for name, value in wanted.items() if value != before[name]}
        response = self._change("PATCH", entry.id, entry.version, json=changes)
        return self._changed_entry(response, entry.id)

    def soft_delete_entry(self, entry_id: str, version: int) -> None:
        """Soft-delete the entry; a missing one is no error. Raise StateChanged if it has another version."""
        response = self._change("DELETE", entry_id, version)
        if not response.is_success and response.status_code != 404:
            self._raise_refusal(response, entry_id)
        self._forget(entry_id)

    def _creation(self, draft: Draft) -> tuple[str, dict[str, Any]]:
        """Return the route and the body that create an entry."""
        place = {"user_id": self._user, "thread_id": draft.conversation_id}
        moment = {"created_at": draft.created_at.isoformat()} if draft.created_at else {}
        span = {key: moment for key, moment in draft.span.write_moments().items() if moment}
        if draft.role in TURN_ROLES:
            if span:
                raise EntryRefused(f"a new turn has no {', '.join(span)}; add it when the turn is stored")
            return "/turns", place | moment | {"role": draft.role, "content": draft.text}
        kind = "summary" if draft.role == "summary" else "semantic"
        body = place | moment | span | {"category": self._category, "type": kind, "text": draft.text}
        return "/memory", body | ({"metadata": {KIND: draft.summary_kind}} if draft.summary_kind else {})

    def find_deleted(self, ids: Collection[str]) -> dict[str, MirrorEntry]:
        """Return the soft-deleted entries of this user with these ids. A result is kept until the entry changes."""
        for entry_id in ids:
            if entry_id not in self._deleted:
                self._deleted[entry_id] = self._find_deleted(entry_id)
        return {entry_id: entry for entry_id in ids if (entry := self._deleted[entry_id])}

    def _find_deleted(self, entry_id: str) -> MirrorEntry | None:
        if not _is_memory_id(entry_id):
            return None
        response = self._requests.send("GET", f"/memory/{entry_id}")
        memory = json_of(response) if response.is_success else {}
        if memory.get("user_id") != self._user or memory.get("state") != "soft_deleted":
            return None
        return entry_of(memory | {"state": "active"})

    def restore_entry(self, entry_id: str) -> MirrorEntry:
        """Restore a soft-deleted entry and return it. Raise StateChanged if it is not soft-deleted, EntryRefused."""
        headers = CLIENT | {"Idempotency-Key": f"mirror-{secrets.token_hex(16)}"}
        response = self._requests.send("POST", f"/memory/{entry_id}/restore", headers=headers)
        return self._changed_entry(response, entry_id)

    def _change(self, method: str, entry_id: str, version: int, **arguments: Any) -> httpx.Response:
        headers = CLIENT | {"If-Match": f'"{version}"', "Idempotency-Key": f"mirror-{secrets.token_hex(16)}"}
        return self._requests.send(method, f"/memory/{entry_id}", headers=headers, **arguments)

    def _changed_entry(self, response: httpx.Response, entry_id: str) -> MirrorEntry:
        """Return the entry that a change answers. Raise StateChanged or EntryRefused."""
        if not response.is_success:
            self._raise_refusal(response, entry_id)
        memory = json_of(response)
        self._note(memory)
        if entry := entry_of(memory):
            return entry
        raise StateChanged(f"the entry {entry_id} changed on the server in the meantime")

    def _raise_refusal(self, response: httpx.Response, entry_id: str) -> None:
        """Raise EntryRefused, or StateChanged if the entry is not as it was. In that case, first read it anew."""
        if response.status_code not in (404, 412) and code_of(response) != "invalid_state":
            raise EntryRefused(describe_refusal(response))
        found = self._requests.send("GET", f"/memory/{entry_id}")
        if found.is_success:
            self._note(json_of(found))
        else:
            self._forget(entry_id)
        raise StateChanged(f"the entry {entry_id} changed on the server in the meantime")

    def _note(self, memory: dict[str, Any]) -> None:
        self._deleted.pop(str(memory["id"]), None)
        if self._entries is not None:
            if entry := entry_of(memory):
                self._entries[entry.id] = entry
            else:
                self._entries.pop(str(memory["id"]), None)

    def _forget(self, entry_id: str) -> None:
        self._deleted.pop(entry_id, None)
        if self._entries is not None:
            self._entries.pop(entry_id, None)

    def _send_changes(self, cursor: str | None) -> httpx.Response:
        params = {"user_id": self._user, "memory": "true"} | ({"after": cursor} if cursor else {})
        return self._requests.send("GET", "/changes", params=params)


def _check_success(response: httpx.Response) -> None:
    if not response.is_success:
        raise StoreUnusable(describe_refusal(response))


def _is_memory_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def entry_of(memory: dict[str, Any]) -> MirrorEntry | None:
    """Return the entry of a memory in the API's JSON; None if it is deleted or of a kind that is not mirrored.

    A memory without a thread counts in every conversation, so it goes to the conversation `global`.
    """
    role = memory["role"] if memory["type"] == "turn" else ROLES.get(memory["type"])
    if memory["state"] != "active" or role is None or (memory["type"] == "turn" and role not in TURN_ROLES):
        return None
    kind = memory["metadata"].get(KIND) if role == "summary" else None
    return MirrorEntry(
        str(memory["id"]),
        memory["thread_id"] or GLOBAL,
        role,
        datetime.fromisoformat(memory["created_at"]),
        memory["text"],
        int(memory["version"]),
        kind if isinstance(kind, str) else None,
        Span(*(_read_moment(memory.get(key)) for key in SPAN_KEYS)),
    )


def _read_moment(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)
