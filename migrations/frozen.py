"""The revisions that a release has published. Databases in use have run them, so their files never change again.

The release that publishes a revision adds it here: `python -m migrations.frozen` prints the entry.
"""

import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from app.storage.operations.schema import digest_files, expected_fingerprint, head_revision

FOLDER = Path(__file__).parent


class Frozen(NamedTuple):
    """A published revision. `files`: the digest of its files; `fingerprint`: that of the schema that it makes."""

    files: str
    fingerprint: str


FROZEN: Mapping[str, Frozen] = {}
"""The published revisions. Empty until the first release: the baseline is still edited in place."""


def digest_revision(revision: str, folder: Path = FOLDER) -> str:
    """Return the digest of a revision's files: its script, and all its SQL."""
    scripts = sorted((folder / "versions").glob(f"{revision}_*.py"))
    digest = hashlib.sha256("\n".join(path.name for path in scripts).encode())
    for path in scripts:
        digest.update(path.read_bytes())
    digest.update(digest_files(folder / "sql" / revision).encode())
    return digest.hexdigest()


def edited_revisions(frozen: Mapping[str, Frozen], folder: Path = FOLDER) -> list[str]:
    """Return the published revisions whose files are not as they were published."""
    return [revision for revision, entry in frozen.items() if digest_revision(revision, folder) != entry.files]


if __name__ == "__main__":
    entry = Frozen(digest_revision(head_revision()), expected_fingerprint())
    sys.stdout.write(f'"{head_revision()}": {entry},\n')
