"""Two hundred random documents: each is refused with a reason and changes nothing, or it works."""

from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.bootstrap import Application
from app.config.tenant_fields import FIELDS, PROFILE_FIELDS
from tests.factories import Caller

NAMES = [
    "profile",
    "goals",
    "goal",
    "recipes",
    "cars",
    "event",
    "activity",
    "preferences",
    "procedural",
    "x" * 201,
    "",
    "ünd",
]
names = st.sampled_from(NAMES) | st.text(max_size=8)
numbers = st.integers(-1, 60) | st.floats(-1, 2, allow_nan=False) | st.just(10**9)
scalars = st.none() | st.booleans() | numbers | names
entries = st.fixed_dictionaries(
    {"name": names},
    optional={"context": st.sampled_from(["all", "rag", "some"]), "rag_length": numbers, "min_relevance": scalars},
)
NEEDED = [{"name": name} for name in ("activity", "profile", "event", "preferences")]
groups = st.fixed_dictionaries(
    {}, optional={"custom": st.lists(entries, max_size=3), "system": st.lists(entries, max_size=2).map(NEEDED.__add__)}
)
lists = st.lists(st.sampled_from(["profile", "goals", "preferences", "recipes", "cars", "goal"]), max_size=4)


def fields_of(allowed: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Fields that a tenant may set, and now and then one that it may not."""
    return st.dictionaries(st.sampled_from([*allowed, "batch"]), scalars | lists, max_size=1)


SECTIONS: dict[str, st.SearchStrategy[Any]] = {
    **{name: fields_of(allowed) for name, allowed in FIELDS.items()},
    "profiles": st.dictionaries(
        st.sampled_from(["default", "mine"]), st.none() | fields_of(PROFILE_FIELDS), max_size=2
    ),
    "jobs": st.just({}),
}
sections = st.sampled_from(sorted(SECTIONS)).flatmap(lambda name: st.fixed_dictionaries({name: SECTIONS[name]}))
documents = st.builds(
    lambda rules, more: rules | more,
    st.fixed_dictionaries(
        {}, optional={"categories": groups, "allowlists": st.dictionaries(names, st.none() | lists, max_size=3)}
    ),
    st.just({}) | sections,
)


async def works(http: httpx.AsyncClient, app: Application, caller: Caller, server: str) -> None:
    """Write into each category, query as each agent, and read with a key that is bound to it."""
    rules = (await http.get("/tenant/config")).json()["effective"]
    known = [category["name"] for category in rules["categories"] if category["name"] != "procedural"]
    for name in known[-2:]:
        note = {"user_id": "maya", "text": f"Maya keeps a note on {name}.", "category": name, "importance": 5}
        assert (await http.post("/memory", json=note)).status_code == 201, name
    turn = {"user_id": "maya", "thread_id": "t", "role": "user", "content": "My favorite color is red."}
    assert (await http.post("/turns", json=turn)).status_code == 201
    for agent, listed in list(rules["allowlists"].items())[-2:]:
        answer = await http.post("/memory/query", json={"query": "a note", "agent": agent, "thread_id": "t"})
        assert answer.status_code == 200, answer.text
        assert {item["category"] for item in answer.json()["items"]} <= set(listed)
        key, plain = await app.tenancy.tenants.create_key(caller.scope.tenant_id, "bound", ["query"], [agent])
        async with httpx.AsyncClient(base_url=server, headers={"Authorization": f"Bearer {plain}"}) as bound:
            seen = (await bound.get("/memory", params={"user_id": "maya"})).json()["items"]
        assert {memory["category"] for memory in seen} <= set(listed)
        await app.tenancy.tenants.revoke_key(caller.scope.tenant_id, key.id)


@pytest.mark.long
async def test_a_random_document_is_refused_or_works(
    http: httpx.AsyncClient, app: Application, caller: Caller, server: str
) -> None:
    verdicts = {"refused": 0, "in force": 0}
    tried: list[Any] = []

    @settings(
        max_examples=200,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    @given(documents)
    def collect(document: Any) -> None:
        tried.append(document)

    collect()
    assert len(tried) == 200
    assert {*FIELDS, "profiles"} <= {name for document in tried for name in document}, "each section is tried"
    for document in tried:
        before = (await http.get("/tenant/config")).json()
        answer = await http.put("/tenant/config", json=document)
        after = (await http.get("/tenant/config")).json()
        if answer.status_code == 200:
            verdicts["in force"] += 1
            assert after["document"] == document
            await works(http, app, caller, server)
        else:
            verdicts["refused"] += 1
            told = answer.json()
            assert (answer.status_code, told["code"]) in {(422, "invalid_config"), (409, "category_in_use")}, told
            assert len(told["detail"]) > 10
            assert after == before
    assert min(verdicts.values()) >= 20, verdicts
