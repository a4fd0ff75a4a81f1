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
    "0013": Frozen(
        files="635677074b15e0f592f34c4fda907cf16094bdd175fa620e7074af6147adf5dd",
        fingerprint="21b3b82ae27dad52296bada70abc601e9f9f2abdccc6df214d23ecff4a49b12c",
    ),
    "0014": Frozen(
        files="b3abcb45c8f35a93adb585056aba3466e0c0de2e9036d1a06bcb779e431b3c72",
        fingerprint="a73a2593b40ba8ea22f39aa8e01a92312c50439a9ac1f3d4fbff65411a6cf92b",
    ),
    "0015": Frozen(
        files="5db6ec2dc852fbd2d5011d627040133ffd864c9b27d3c0b296409100c51a6859",
        fingerprint="2a012db86521b11b7ad3b2d2a450a5a537616ebd2135bf346c31374977110c35",
    ),
    "0016": Frozen(
        files="a8eb5d9d50efc57e78673c6ba7387fcf0fc7691a755e9571f98f774ce3367b03",
        fingerprint="ef9ad379632e569ac3b3b6ae73d0f74c19a4c4b5845861eef456be5689fcaa0d",
    ),
    "0017": Frozen(
        files="e2869b95473c94eb14f2ba7e0a6e2fed724ed5195665fb61c9b326f6d3e0ae8d",
        fingerprint="870b752c60a77c484d8b672f1ce9596c12aedb6a88b9a67047bd1159e9f29ac2",
    ),
    "0018": Frozen(
        files="0be33c961939c3638107053817f2245f2882a53f3fcb5ada8c73a1d7d53342a2",
        fingerprint="c21814247183218b39cdec3474a43f4b378e912f6923f6e1a3e523184f849f4b",
    ),
    "0019": Frozen(
        files="aea257d4f248ac43eb03fafdcc8c6b1209852a42dc3f26bed98f972bce37303e",
        fingerprint="69e5b4bdcd64672b2eac6727d4bd201a2a729f535f6268ef8eb8a3c541e4a990",
    ),
    "0020": Frozen(
        files="850de66435e1581d380335e9839e1b550281022c9cc88ab0f84716484bb04e06",
        fingerprint="522ce9770d8c6601d1fc2f9826776b1aeb408fbda05dd4d6b44b494f5472fa30",
    ),
    "0021": Frozen(
        files="fd823836d93df2a8cc25ab1c22a2aad283037bf4bdc9e1087a9ba040cf22324b",
        fingerprint="3fe5919dc3c32382bbf8396b9594cd26ce11a88afa57534b0fde3a8237d6f698",
    ),
    "0022": Frozen(
        files="da7e32bcaee56900a99410427f0b9eca6e385756d56ee290d68dd25681fc11e6",
        fingerprint="ae4680f0f948eaa45eefb7d118b07f371f028acebd09cd0a2b7ad8a436461aae",
    ),
    "0023": Frozen(
        files="08431d4688df2c9c0fbc0382d67c7beeeacff53c543e7654fb46e8dc06d07d07",
        fingerprint="185d4106c231e0446d14c3e3d4d0df3f648e45ec5272a480d4171f4e0b6f04cb",
    ),
    "0024": Frozen(
        files="cab02d535329d47ac79c6e6e81f2532762cde1d01852c07b4372f088d5377835",
        fingerprint="a750153bfbecfeb53e2c2350aaea1e6b87b8f8aabb542b38b683a3163c396d6e",
    ),
    "0025": Frozen(
        files="60c82a6e81cbb2295df417a97bb06fd3f38469ce11c4450dbb93eae59623c28e",
        fingerprint="d70631251b55905d46cc93e9e3a87c8a81b4e25c3ec804522ef310b4422b6127",
    ),
    "0026": Frozen(
        files="2821ee076b7de0db57cf6af18c1bff31e9db95185a7360bed6bdc1e7ab307511",
        fingerprint="a167240dfe8f762b12874097687b6ef246e78659ada8fb0bafec3a622d2c38b4",
    ),
    "0027": Frozen(
        files="aea8c1a548b2aac6d9c920d27783afc4b25326fcb862d156fadf416794547ea3",
        fingerprint="a78d224e86eab5b4436c09882177ae83e5bd41b04568359da4b3e741c4a32f98",
    ),
    "0028": Frozen(
        files="88c7d8ce694c2da9e41664977bd792ea8810f4715049b4b5d765ab2fccfd61a4",
        fingerprint="8c4e73fba898c6898b2ccf2a0a6ee31202b2e867375e07d490bdffc8cfb412c2",
    ),
    "0029": Frozen(
        files="45cd300cdd31aa80eeab1d7c12e6739e19ae174a6d3d1403e6b12b5076280e65",
        fingerprint="f3082af5d70aa012d86428ea94a39f807dc0f9f5f9c026d6ff080c41c230bf0e",
    ),
    "0030": Frozen(
        files="6ebb23a77913b51d87b356c59de6042abed0fcd2c66ab433ab199e16bdc01879",
        fingerprint="0d4748a685c19f261bab58052f46ac944f635d0020827af949a20f797b423f9d",
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
