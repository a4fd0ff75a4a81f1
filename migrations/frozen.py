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


FROZEN: Mapping[str, Frozen] = {
    "0001": Frozen(
        files="4a98f59fe8994d1c286d98d2260ca38a7b755eea10e3fff21e238a8b90bd55b7",
        fingerprint="5b2e86234be07fe6429dd3a0935e66cbf48c41e503f0111e6bd4f1de12635beb",
    ),
    "0002": Frozen(
        files="1c0e7ec1cb89167ed13cc850b3d597b9785f9d919810e7cbf4df6a27d8a339cf",
        fingerprint="7ff95d1124aa3c5849de3f840144e8ec78f28b0daa31c90b972dfe5e79378c81",
    ),
    "0003": Frozen(
        files="3157c7166e27ebf86a86b03c20d7ef9e036ddc30efdc134e349415850d4c9989",
        fingerprint="13c01ea1f708c51a4f21e8c49fb22c0fcaa014f0cab21000747af5e6354f2a5d",
    ),
    "0004": Frozen(
        files="774d3ab22d8f04474dbb407aa6f6de548318df4b7baf3629ee6eadb646667558",
        fingerprint="27eaa33120b4d7b6d51726099f859941e0effc94be32b10a14ff2af0729ea151",
    ),
    "0005": Frozen(
        files="0cb2524676b7920ae38e0d935780cc37aa644ae88c751b1548ea9eb46a8cefff",
        fingerprint="3cc4a7eaf90ae83a73642ce84e627f58a329f3538cd81a884a8f8ca3d5abe9cb",
    ),
    "0006": Frozen(
        files="ab8cca534e37c1e0433e0ece9025fd3c84ac4ef060c1eed691da959c01bb42ef",
        fingerprint="2eb2ff10ed77f1699761979e2b054c5aa3ddec1cd2a3ed42b03868b1c0061e9a",
    ),
    "0007": Frozen(
        files="5f2fdc306f712fa75d59b9d5ea7ef420491609cffa7e09cade6b206a4af6c448",
        fingerprint="02cd401a0913af22133323ac9493297f386f2062335406887b9fc5abd08e5435",
    ),
    "0008": Frozen(
        files="0affb4ae12007029cdb626d70f3342754ca477e8ac7d25695f85805ae8784bad",
        fingerprint="2aca82d716e49563f12c789bf74dc3d37c7e8ad01a74eba19605b8c28cb91a63",
    ),
    "0009": Frozen(
        files="15e2bb34d0712aa6083356b8088931d268ba814934c5c4b4d7bf7b02635b12cd",
        fingerprint="ac010b5efef9d6d27205528bac1e96965b68de0eeed5170813b14cce656ba66a",
    ),
    "0010": Frozen(
        files="2671d789caed8d7d5acb853adba332c7876ae8b07d3a1eb48b2a78325c77545e",
        fingerprint="958729a63d6994354be8dd7a184045378fda109317d6c2090e1baabd4f733dbc",
    ),
    "0011": Frozen(
        files="0ac108d6c9c97f075babcc5fd20ac30ce419d7685ed68c96af5103a71ecd161f",
        fingerprint="5fe2f7ad68eabbfd9434a4fddef47382444813bac32c9bc66f097f18c354602d",
    ),
    "0012": Frozen(
        files="6b52246e3025624ab68c0ce00a02e74e705020adb1a5fda13fba5b384b571608",
        fingerprint="b86eedaf6fcaaec054d737418409435a5db07f6940bd0c514d7f7bb141266f83",
    ),
}
"""The published revisions."""


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
