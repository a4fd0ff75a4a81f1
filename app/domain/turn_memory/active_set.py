"""The active set of a conversation: what was selected, and how far its buckets are reconciled."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mnema_wire.blocks import format_time

from app.domain.turn_memory.artifacts import WHOLE_CONVERSATION, Artifact, ArtifactChange, ArtifactKind
from app.domain.turn_memory.fingerprint import parse_time


@dataclass(frozen=True, slots=True)
class ActiveSet:
    """The selection of a conversation.

    - `selected_local_memories_turn_ids`: the turns whose memories still matter; None if nothing was selected yet.
    - `last_reconciled_ts`: the newest fingerprint that is in the buckets; None if there is none.
    - `since_last_reconcile`: the turns whose fingerprints came since.
    """

    picked_bucket_ids: tuple[str, ...] = ()
    selected_local_memories_turn_ids: tuple[str, ...] | None = None
    last_reconciled_ts: datetime | None = None
    since_last_reconcile: int = 0
    conversation_title: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the active set as it is stored and answered."""
        selected = self.selected_local_memories_turn_ids
        reconciled = self.last_reconciled_ts
        return {
            "picked_bucket_ids": list(self.picked_bucket_ids),
            "selected_local_memories_turn_ids": None if selected is None else list(selected),
            "last_reconciled_ts": None if reconciled is None else format_time(reconciled),
            "since_last_reconcile": self.since_last_reconcile,
            "conversation_title": self.conversation_title,
        }


def parse_active_set(raw: Mapping[str, Any]) -> ActiveSet:
    """Return a stored active set from its JSON."""
    selected = raw["selected_local_memories_turn_ids"]
    reconciled = raw["last_reconciled_ts"]
    return ActiveSet(
        tuple(raw["picked_bucket_ids"]),
        None if selected is None else tuple(selected),
        None if reconciled is None else parse_time(reconciled),
        raw["since_last_reconcile"],
        raw["conversation_title"],
    )


def find_active_set(artifacts: Iterable[Artifact]) -> tuple[ActiveSet, int]:
    """Return the active set among artifacts, and its version; an empty one and 0 if there is none."""
    row = next((artifact for artifact in artifacts if artifact.kind is ArtifactKind.active_set), None)
    return (parse_active_set(json.loads(row.text)), row.version) if row else (ActiveSet(), 0)


def active_set_row(active: ActiveSet, version: int, now: datetime) -> ArtifactChange:
    """Return the row of an active set in place of the one with this version; 0: there is none."""
    text = json.dumps(active.as_json(), ensure_ascii=False)
    kind = ArtifactKind.active_set
    return ArtifactChange(kind, WHOLE_CONVERSATION, text, now, tags=[kind.value], expect=version)


def resolve_turn_ids(named: Iterable[str], known: Sequence[str], most: int) -> tuple[str, ...]:
    """Return the known turn ids that are named, in the order of their naming, each once, at most `most`.

    A partial id counts if exactly one known id begins with it. Any other name is left out.
    """
    found: dict[str, None] = {}
    exact = set(known)
    for name in named:
        if name in exact:
            found[name] = None
        elif name:
            matches = [turn_id for turn_id in known if turn_id.startswith(name)]
            if len(set(matches)) == 1:
                found[matches[0]] = None
    return tuple(found)[:most]
