"""Calls by project, chat and message against the real server."""

from typing import Any

import pytest
from mnema_client import NotFound

from tests.factories import Caller
from tests.sdk.conftest import Either


async def test_a_project_keeps_facts_and_messages(either: Either, caller: Caller) -> None:
    project = str(caller.scope.tenant_id)
    for rank, value in enumerate(("blue", "green"), 1):
        stored = await either.store_fact(project, "favorite_colors", "ranked", value, "m1", "launch", rank)
        assert (stored.action_type, stored.memory_actions.S) == ("store", 1)
    same = await either.store_fact(project, "favorite_colors", "ranked", "green", "m2", "launch", 2)
    assert same.action_type is None
    facts = await either.get_facts(project, "launch", "favorite_colors")
    assert [(fact.rank, fact.value) for fact in facts] == [(1, "blue"), (2, "green")]
    assert (await either.get_fact_by_rank(project, "launch", "favorite_colors", 2)).value == "green"
    assert await either.get_fact_by_rank(project, "launch", "favorite_colors", 3) is None
    assert await either.get_facts(project, "other") == []
    said: Any = await either.index_chat_message(project, "chat", "m3", "user", "My favorite color is red.")
    assert (said.chat_id, said.message_id, said.memory_actions.S) == ("chat", "m3", 1)
    with pytest.raises(NotFound):
        await either.get_facts("another project")
    assert await either.is_available()
