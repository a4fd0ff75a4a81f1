"""A guard against the loss of many entries at once: a disk that vanished, an emptied folder, the wrong user."""

from collections.abc import Sequence
from dataclasses import dataclass

from mnema_cli.mirror.rules.actions import Action, DeleteFile, FoundFiles, Refuse, SoftDeleteEntry
from mnema_cli.mirror.rules.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class MassDeletionPolicy:
    """Limits of the deletions of one run, on each side.

    Deletions are held if they are more than `max_deletions` and also more than `max_deleted_share` of all known
    entries, unless `allow_mass_deletion` is set.
    """

    max_deletions: int = 20
    max_deleted_share: float = 0.5
    allow_mass_deletion: bool = False


def hold_mass_deletion(
    actions: Sequence[Action], found: FoundFiles, snapshot: Snapshot, policy: MassDeletionPolicy
) -> list[Action]:
    """Return the actions without deletions that are too many, with a refusal in their place."""
    if policy.allow_mass_deletion:
        return list(actions)
    known = len(snapshot.records)
    kept = list(actions)
    for kind, what in ((SoftDeleteEntry, "files are gone here"), (DeleteFile, "entries are gone on the server")):
        count = sum(isinstance(action, kind) for action in kept)
        too_many = count > policy.max_deletions and count > policy.max_deleted_share * known
        if too_many or (kind is SoftDeleteEntry and count and not found.has_entries):
            kept = [action for action in kept if not isinstance(action, kind)]
            reason = f"{count} of {known} {what}; nothing was deleted; use `--allow-mass-deletion` if you mean it"
            kept.append(Refuse("", reason))
    return kept
