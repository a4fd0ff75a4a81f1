"""Fixtures of the tests of receipts."""

import pytest

from app.bootstrap import Application
from app.storage.access_log import AccessLog
from tests.factories import Clock
from tests.storage.building import journal_of


@pytest.fixture
def other_server(app: Application, clock: Clock) -> AccessLog:
    """The access log of another server, with receipts that it has not written yet."""
    return AccessLog(app.parts.uow, journal_of(app.parts.uow), clock)
