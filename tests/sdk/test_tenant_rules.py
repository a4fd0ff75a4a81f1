"""A tenant's rules through both clients."""

import asyncio

import mnema_client
import pytest
from mnema_client.errors import CannotBeSent, VersionConflict

from tests.factories import Caller

COOK = {"categories": {"custom": [{"name": "recipes"}]}, "allowlists": {"cook": ["recipes"]}}


async def test_rules_are_put_read_and_rolled_back(server: str, caller: Caller) -> None:
    await asyncio.to_thread(change_rules, server, caller.key)


def change_rules(server: str, key: str) -> None:
    with mnema_client.Mnema(server, key) as memory:
        assert memory.tenant_config().version == 0
        assert memory.put_tenant_config(COOK, dry_run=True).version == 1
        first = memory.put_tenant_config(COOK, version=0, note="a cook")
        assert (first.version, first.diff[:2]) == (1, ["--- version 0", "+++ version 1"])
        rules = memory.tenant_config()
        assert rules.document == COOK
        assert rules.effective.allowlists["cook"] == ["recipes"]
        assert rules.effective.categories[-1].name
        memory.remember("Maya cooks rice.", user_id="maya", category="recipes")
        with pytest.raises(VersionConflict):
            memory.put_tenant_config({}, version=0)
        moved = memory.put_tenant_config("query: {top_k: 3}\n", move={"recipes": "goals"})
        assert (moved.version, moved.moved) == (2, {"recipes": 1})
        assert memory.tenant_config_version(1).document == COOK
        assert "+query: {top_k: 3}" in memory.tenant_config_diff(1, 2).diff
        assert memory.rollback_tenant_config(1).version == 3
        assert [one.version for one in memory.tenant_config_history(limit=2)] == [3, 2, 1]
        with pytest.raises(CannotBeSent):
            memory.put_tenant_config({"query": object()})


async def test_the_asynchronous_client_has_the_same_methods(server: str, caller: Caller) -> None:
    async with mnema_client.AsyncMnema(server, caller.key) as memory:
        await memory.put_tenant_config(COOK)
        assert (await memory.tenant_config()).document == COOK
        assert [one.version async for one in memory.tenant_config_history()] == [1]
