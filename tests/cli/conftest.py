"""What commands that run in this process find in its environment."""

import pytest

from tests.conftest import SECRET_KEY


@pytest.fixture(autouse=True)
def secret_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret of the tests' servers."""
    monkeypatch.setenv("MNEMA_SECRET_KEY", SECRET_KEY)
