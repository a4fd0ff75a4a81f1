"""The tenants of the shared installation, if MNEMA_TEST_CLUSTERS spreads them."""

import os

import pytest

from app.bootstrap import Application
from tests.factories import make_caller


@pytest.mark.skipif("MNEMA_TEST_CLUSTERS" not in os.environ, reason="MNEMA_TEST_CLUSTERS=1 spreads the tenants")
async def test_tenants_of_the_suite_are_spread_over_three_clusters(app: Application) -> None:
    homes = app.parts.database.homes
    assert homes is not None
    callers = [await make_caller(app) for _ in range(3)]
    await homes.load_changes()
    assert all(homes.known_home(caller.scope.tenant_id) for caller in callers)
    assert set(homes.list_homes().values()) == {"first", "second", "third"}
