"""A folder of documents below an allowed one, with a neighbour that no source may read."""

from pathlib import Path
from uuid import UUID

import pytest

from app.domain.sources.folder import SourceRoot
from app.providers.source_folders import PosixSourceFolders

TENANT = UUID(int=1)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder outside, with a file that must never be read."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.md").write_text("SECRET")
    return folder


@pytest.fixture
def docs(tmp_path: Path, outside: Path) -> Path:
    """The folder of a source, below the allowed one."""
    folder = tmp_path / "allowed" / "docs"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def folders(docs: Path) -> PosixSourceFolders:
    """The folders below the allowed one."""
    return PosixSourceFolders([str(docs.parent)])


@pytest.fixture
def root(docs: Path) -> SourceRoot:
    """The folder of a source."""
    return SourceRoot(TENANT, str(docs))
