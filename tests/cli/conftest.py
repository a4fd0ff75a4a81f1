"""The environment of commands that run in this process."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SECRET_KEY, Database


@pytest.fixture(autouse=True)
def secret_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the secret of the tests' servers."""
    monkeypatch.setenv("MNEMA_SECRET_KEY", SECRET_KEY)


@pytest.fixture
def operator(database: Database, tmp_path: Path) -> dict[str, Any]:
    """Return the environment of an operator's command, with the database."""
    return {"MNEMA_DATABASE_URL": database.app, "MNEMA_HOME": tmp_path / "home"}
