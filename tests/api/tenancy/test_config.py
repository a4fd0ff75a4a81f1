"""/tenant/config: a tenant's own agents, categories and settings, and what becomes of its memories."""

import threading
from typing import Any
from uuid import UUID

import httpx
import pytest
import yaml

from app.bootstrap import Application
from app.config.loader import Policies
from app.config.tenant_policies import TenantPolicies
from app.providers.clock import SystemClock
from app.storage.journal import Journal
from app.storage.memory.batches import BatchStorage
from app.storage.tenancy.configs import TenantConfigStorage
from app.usecases.tenancy.category_moves import MoveCategories
from app.usecases.tenancy.refresh import RefreshRules
from app.usecases.tenancy.rules import ManageRules, RulesDraft
from tests.api.calls import add_source, ask, delta, refused, remember, say
from tests.api.cursors import MALFORMED, pages
from tests.factories import Caller, make_caller
from tests.storage.building import SPACE

CONFIG = "/tenant/config"
MANY = {"categories": {"custom": [{"name": f"c{n}", "label": "x" * 100} for n in range(150)]}}
COOK = {
    "categories": {"custom": [{"name": "recipes", "label": "dishes", "context": "all"}]},
    "allowlists": {"cook": ["recipes", "preferences"], "supervisor": None},
}


async def put(client: httpx.AsyncClient, document: Any, **params: Any) -> dict[str, Any]:
    """Put a document in force."""
    answer = await client.put(CONFIG, json=document, params=params)
    assert answer.status_code == 200, answer.text
    changed: dict[str, Any] = answer.json()
    assert answer.headers["ETag"] == f'"{changed["version"]}"'
    return changed


async def asked(client: httpx.AsyncClient, agent: str, query: str = "What does Maya cook?") -> list[str]:
    """Return the texts that an agent gets, without their categories."""
    return [item["text"].partition("] ")[2] for item in (await ask(client, query, agent=agent))["items"]]


async def test_without_rules_the_defaults_are_in_force(http: httpx.AsyncClient, app: Application) -> None:
    answer = await http.get(CONFIG)
    found = answer.json()
    assert (found["version"], found["document"], found["actor"], found["created_at"]) == (0, {}, None, None)
    assert answer.headers["ETag"] == '"0"'
    default = app.parts.policies.defaults.categories
    assert found["effective"]["allowlists"] == {agent: list(names) for agent, names in default.allowlists.items()}
    assert [category["name"] for category in found["effective"]["categories"]] == list(default.categories)
    assert (await http.get(CONFIG, headers={"Accept": "application/yaml"})).text == "{}\n"
    assert (await http.get(f"{CONFIG}/history")).json() == {"items": [], "next_cursor": None}


async def test_two_tenants_have_their_own_agents_and_categories(app: Application, server: str) -> None:
    kitchen, garage = await make_caller(app, ["admin"]), await make_caller(app, ["admin"])
    async with kitchen.client(server) as cooks, garage.client(server) as mechanics:
        await put(cooks, COOK)
        await put(mechanics, {"categories": {"custom": [{"name": "cars"}]}, "allowlists": {"fixer": ["cars"]}})
        await remember(cooks, "Maya cooks rice with beans.", category="recipes")
        await remember(mechanics, "Maya drives an old Fiat.", category="cars")
        assert await asked(cooks, "cook") == ["Maya cooks rice with beans."]
        assert await asked(mechanics, "fixer", "What does Maya drive?") == ["Maya drives an old Fiat."]
        foreign = {"user_id": "maya", "text": "Maya sells cars.", "category": "cars"}
        refused(await cooks.post("/memory", json=foreign), 422, "unknown_category")
        query = {"query": "cars", "agent": "fixer"}
        refused(await cooks.post("/memory/query", json=query), 403, "unknown_agent")
        refused(await cooks.post("/memory/query", json=query | {"agent": "supervisor"}), 403, "unknown_agent")
        assert await asked(mechanics, "supervisor", "What does Maya drive?") == []
        listed = {item["agent"] for item in (await cooks.get("/agents")).json()["items"]}
        assert listed == {"cook", "assistant", "planner", "stylist", "researcher", "executor"}


async def test_a_bound_key_has_the_categories_of_the_rules_in_force(
    app: Application, server: str, caller: Caller, http: httpx.AsyncClient
) -> None:
    await put(http, COOK)
    _key, plain = await app.tenancy.tenants.create_key(caller.scope.tenant_id, "cook", ["query", "write"], ["cook"])
    async with httpx.AsyncClient(base_url=server, headers={"Authorization": f"Bearer {plain}"}) as cook:
        await remember(cook, "Maya cooks rice.", category="recipes")
        refused(await cook.get(CONFIG), 403, "scope_required")
        assert (await cook.get("/key")).json()["categories"] == ["preferences", "recipes"]
        shrunk = await put(http, COOK | {"allowlists": {"cook": ["preferences"]}})
        assert shrunk["warnings"] == []
        assert (await cook.get("/memory", params={"user_id": "maya"})).json()["items"] == []
        more = {"user_id": "maya", "text": "Maya cooks more.", "category": "recipes"}
        refused(await cook.post("/memory", json=more), 403, "category_not_allowed")
        gone = await put(http, {"categories": COOK["categories"]})
        assert gone["warnings"] == ["key 'cook' is bound to agent 'cook', which has no allowlist"]
        refused(await cook.post("/memory/query", json={"query": "rice", "agent": "cook"}), 403, "unknown_agent")
        assert (await cook.get("/key")).json()["categories"] == []


async def test_rules_are_read_compared_and_rolled_back(http: httpx.AsyncClient, caller: Caller) -> None:
    first = await put(http, COOK, note="our cook")
    assert first["diff"][:2] == ["--- version 0", "+++ version 1"]
    second = await http.put(
        CONFIG, content=b"# shorter\nquery: {top_k: 3}\n", headers={"Content-Type": "application/yaml"}
    )
    assert second.json()["version"] == 2
    assert "+query: {top_k: 3}" in second.json()["diff"]
    read = (await http.get(CONFIG)).json()
    assert (read["version"], read["document"], read["actor"]) == (2, {"query": {"top_k": 3}}, caller.scope.actor_name)
    text = await http.get(CONFIG, headers={"Accept": "application/yaml, */*"})
    assert (text.headers["Content-Type"], text.headers["ETag"]) == ("application/yaml", '"2"')
    assert yaml.safe_load(text.text) == {"query": {"top_k": 3}}
    assert (await http.get(f"{CONFIG}/1")).json()["document"] == COOK
    assert yaml.safe_load((await http.get(f"{CONFIG}/1", headers={"Accept": "text/yaml"})).text) == COOK
    refused(await http.get(f"{CONFIG}/3"), 404, "not_found")
    compared = (await http.get(f"{CONFIG}/diff", params={"from_version": 2, "to_version": 0})).json()
    assert [line for line in compared["diff"] if line[0] in "+-"] == [
        *("--- version 2", "+++ version 0", "-query: {top_k: 3}", "+{}")
    ]
    refused(await http.get(f"{CONFIG}/diff", params={"from_version": 1, "to_version": 9}), 404, "not_found")
    back = await http.post(f"{CONFIG}/rollback", json={"version": 1})
    assert (back.status_code, back.json()["version"]) == (200, 3)
    assert (await http.get(CONFIG)).json()["document"] == COOK
    listed = [item for page in await pages(http, f"{CONFIG}/history", limit=2) for item in page]
    assert [(item["version"], item["note"]) for item in listed] == [
        *((3, "rollback to version 1"), (2, None), (1, "our cook"))
    ]
    refused(await http.post(f"{CONFIG}/rollback", json={"version": 9}), 404, "not_found")
    assert (await http.post(f"{CONFIG}/rollback", json={"version": 0})).json()["version"] == 4
    assert (await http.get(CONFIG)).json()["document"] == {}


async def test_the_same_document_makes_no_version(http: httpx.AsyncClient) -> None:
    await put(http, COOK)
    again = await put(http, COOK)
    assert (again["version"], again["diff"]) == (1, [])


async def test_a_change_with_if_match_replaces_only_that_version(http: httpx.AsyncClient) -> None:
    assert (await http.put(CONFIG, json=COOK, headers={"If-Match": '"0"'})).status_code == 200
    refused(await http.put(CONFIG, json={}, headers={"If-Match": '"0"'}), 412, "version_conflict")
    refused(await http.put(CONFIG, json={}, headers={"If-Match": "x"}), 422, "invalid_request")
    assert (await http.put(CONFIG, json={}, headers={"If-Match": "*"})).json()["version"] == 2
    back = {"version": 1}
    refused(await http.post(f"{CONFIG}/rollback", json=back, headers={"If-Match": '"1"'}), 412, "version_conflict")
    done = await http.post(f"{CONFIG}/rollback", json=back, headers={"If-Match": '"2"'})
    assert done.json()["version"] == 3


async def test_a_dry_run_changes_nothing(http: httpx.AsyncClient) -> None:
    tried = await put(http, COOK, dry_run=True)
    assert (tried["version"], len(tried["diff"]) > 3) == (1, True)
    assert (await http.get(CONFIG)).json()["version"] == 0
    assert (await http.post(f"{CONFIG}/rollback", json={"version": 0, "dry_run": True})).json()["diff"] == []


async def test_a_retried_change_is_made_once(http: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "k1", "If-Match": '"0"'}
    first = (await http.put(CONFIG, json=COOK, headers=headers)).json()
    await put(http, {})
    again = await http.put(CONFIG, json=COOK, headers=headers)
    assert (again.status_code, again.json()) == (200, first)
    assert (await http.get(CONFIG)).json()["version"] == 2
    refused(await http.put(CONFIG, json={}, headers=headers), 409, "idempotency_key_reused")


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"allowlists": {"cook": ["recipe"]}}, "allowlists.cook: unknown category 'recipe'"),
        ({"allowlists": {"cook": ["profil"]}}, "did you mean 'profile'?"),
        ({"jobs": {}}, "jobs is the installation's; a tenant may set: categories, allowlists"),
        ({"query": {"top_k": 51}}, "query: top_k must be from 1 to 50"),
        ({"query": {"min_relevance": "high"}}, "query.min_relevance: 'high': Input should be a valid number"),
        ([], "the document must be a mapping"),
    ],
)
async def test_a_wrong_document_is_refused_and_changes_nothing(
    http: httpx.AsyncClient, document: Any, why: str
) -> None:
    await put(http, COOK)
    before = (await http.get(CONFIG)).json()
    answer = await http.put(CONFIG, json=document)
    refused(answer, 422, "invalid_config")
    assert why in answer.json()["detail"]
    assert (await http.get(CONFIG)).json() == before


async def test_bodies_of_other_kinds_are_refused(http: httpx.AsyncClient) -> None:
    refused(await http.put(CONFIG, content=b"a,b", headers={"Content-Type": "text/csv"}), 415, "unsupported_media_type")
    yaml_type = {"Content-Type": "application/x-yaml"}
    refused(await http.put(CONFIG, content=b"a: [", headers=yaml_type), 422, "invalid_config")
    refused(await http.put(CONFIG, content=b"a: " + b"x" * (256 << 10), headers=yaml_type), 413, "body_too_large")
    for move in ("old", ":new", "old:", "a:b" * 200):
        refused(await http.put(CONFIG, json={}, params={"move": move}), 422, "invalid_request")
    refused(await http.put(CONFIG, json={}, params={"move": ["a:b", "a:c"]}), 422, "invalid_request")
    for cursor in MALFORMED:
        refused(await http.get(f"{CONFIG}/history", params={"cursor": cursor}), 422, "invalid_cursor")


async def test_no_document_is_built_on_the_event_loop(app: Application, caller: Caller) -> None:
    threads: list[threading.Thread] = []

    def build_noting_thread(document: Any) -> Policies:
        threads.append(threading.current_thread())
        return app.parts.policies.build_policies(document)

    book = TenantPolicies(app.parts.policies.defaults, build_noting_thread)
    storage, journal = (
        TenantConfigStorage(app.parts.uow),
        Journal(app.parts.uow, SPACE, app.parts.settings.erasure_secret()),
    )
    rules = ManageRules(
        app.parts.uow, storage, MoveCategories(storage, BatchStorage(), journal, SystemClock()), journal, book
    )
    await app.tenancy.rules.put_rules(caller.scope, RulesDraft({"query": {"top_k": 3}}))
    assert (await rules.get_rules(caller.scope)).policies.query.top_k == 3
    await app.tenancy.rules.put_rules(caller.scope, RulesDraft({"query": {"top_k": 4}}))
    await rules.put_rules(caller.scope, RulesDraft({"query": {"top_k": 5}}))
    await app.tenancy.rules.put_rules(
        caller.scope, RulesDraft({"allowlists": {"cook": [f"c{n}" for n in range(150)]}, **MANY})
    )
    await RefreshRules([storage], book).load_changes()
    assert "cook" in book.of(caller.scope).categories.allowlists
    assert len(threads) == 4, "each document once"
    assert threading.main_thread() not in threads


class TestMoves:
    """Categories that the new rules lack."""

    async def test_a_category_with_memories_is_not_removed(self, http: httpx.AsyncClient) -> None:
        await put(http, COOK)
        await remember(http, "Maya cooks rice.", category="recipes")
        gone = await remember(http, "Maya bakes bread.", category="recipes")
        assert (await http.delete(f"/memory/{gone['id']}")).status_code == 200
        answer = await http.put(CONFIG, json={})
        refused(answer, 409, "category_in_use")
        told = answer.json()
        assert (told["categories"], told["counts"]) == (["recipes"], {"recipes": 2})
        assert "category 'recipes' holds 2 memories; keep it, or move them: ?move=old:new" in told["detail"]
        assert (await http.get(CONFIG)).json()["version"] == 1
        refused(await http.put(CONFIG, json={}, params={"dry_run": True}), 409, "category_in_use")

    async def test_memories_move_with_history_and_delta(self, http: httpx.AsyncClient) -> None:
        await put(http, COOK)
        rice = await remember(http, "Maya cooks rice.", category="recipes", thread_id="t")
        gone = await remember(http, "Maya bakes bread.", category="recipes")
        await http.delete(f"/memory/{gone['id']}")
        tried = await put(http, {}, move="recipes:preferences", dry_run=True)
        assert tried["moved"] == {"recipes": 2}
        assert (await http.get(f"/memory/{rice['id']}")).json()["category"] == "recipes"
        since = (await http.get("/threads/t/delta", params={"since_rev": 0})).json()["rev"]
        moved = await put(http, {}, move="recipes:preferences")
        assert (moved["version"], moved["moved"], moved["warnings"]) == (2, {"recipes": 2}, [])
        after = (await http.get(f"/memory/{rice['id']}")).json()
        assert (after["category"], after["state"], after["version"]) == ("preferences", "active", 2)
        bread = (await http.get(f"/memory/{gone['id']}")).json()
        assert (bread["category"], bread["state"]) == ("preferences", "soft_deleted")
        newest = (await http.get(f"/memory/{rice['id']}/history")).json()["items"][0]
        assert (newest["event"], newest["meta"]["reason"], newest["meta"]["from_category"]) == (
            *("UPDATE", "rules", "recipes"),
        )
        told = await delta(http, "t", since_rev=since)
        assert "updated: [Preferences] Maya cooks rice." in told["header"]
        assert await asked(http, "stylist", "What does Maya cook?") == ["Maya cooks rice."]

    async def test_a_text_that_the_target_has_is_superseded_by_it(self, http: httpx.AsyncClient) -> None:
        await put(http, COOK)
        there = await remember(http, "Maya likes rice.", category="preferences")
        here = await remember(http, "Maya likes rice.", category="recipes")
        await put(http, {}, move="recipes:preferences")
        moved = (await http.get(f"/memory/{here['id']}")).json()
        assert (moved["category"], moved["state"], moved["superseded_by"]) == ("preferences", "superseded", there["id"])
        assert (await http.get(f"/memory/{there['id']}")).json()["state"] == "active"

    async def test_facts_move_with_their_category(
        self, http: httpx.AsyncClient, app: Application, caller: Caller, server: str
    ) -> None:
        await put(http, COOK | {"facts": {"category": "recipes"}})
        await say(http, "My favorite colors are blue and green.")
        stylist = await make_caller(app, ["query"], ["stylist"], tenant=caller)
        refused(await http.put(CONFIG, json={}), 409, "category_in_use")
        counts = (await http.put(CONFIG, json={})).json()["counts"]
        assert counts["recipes"] >= 2, "each colour is a fact"
        assert (await put(http, {}, move="recipes:preferences"))["moved"] == counts
        async with stylist.client(server) as client:
            facts = (await client.get("/facts", params={"user_id": "maya"})).json()["items"]
        assert [fact["value"] for fact in facts] == ["blue", "green"]
        listed = (await http.get("/memory", params={"category": "preferences"})).json()["items"]
        assert [memory["text"] for memory in listed] == ["The user's favorite colors, in order: blue, green."]

    @pytest.mark.long
    async def test_a_long_turn_moves_with_its_chunks(
        self, http: httpx.AsyncClient, app: Application, caller: Caller
    ) -> None:
        await put(http, COOK | {"turns": {"category": "recipes"}})
        turn = await say(http, "\n\n".join(f"Step {step}. Stir the rice for a while." for step in range(100)))
        count = await app.sources.cut_turns.cut_turn(caller.scope, UUID(turn["id"]))
        assert count > 1
        moved = await put(http, {}, move="recipes:activity")
        assert moved["moved"] == {"recipes": count + 1}
        listed = await http.get("/memory", params={"category": "activity", "limit": 200})
        assert [m["type"] for m in listed.json()["items"]].count("chunk") == count
        assert (await http.get("/memory", params={"category": "recipes"})).json()["items"] == []

    async def test_a_category_with_sources_stays(self, http: httpx.AsyncClient) -> None:
        await put(http, COOK)
        await add_source(http, category="recipes")
        answer = await http.put(CONFIG, json={}, params={"move": "recipes:preferences"})
        refused(answer, 409, "category_in_use")
        assert "1 sources; remove its sources first" in answer.json()["detail"]

    @pytest.mark.parametrize(
        ("move", "why"),
        [
            ("preferences:goals", "the new rules have the category 'preferences'"),
            ("recipes:nowhere", "unknown category 'nowhere'; the new rules have: profile"),
            ("recipes:procedural", "procedures cannot change their category"),
        ],
    )
    async def test_a_wrong_move_is_refused(self, http: httpx.AsyncClient, move: str, why: str) -> None:
        await put(http, COOK)
        answer = await http.put(CONFIG, json={}, params={"move": move})
        refused(answer, 422, "invalid_config")
        assert why in answer.json()["detail"]
        assert (await http.get(CONFIG)).json()["version"] == 1

    async def test_an_empty_category_is_removed(self, http: httpx.AsyncClient) -> None:
        await put(http, COOK)
        answer = await put(http, {}, move="recipes:goals")
        assert (answer["moved"], answer["warnings"]) == ({}, ["move: category 'recipes' holds nothing"])

    async def test_a_rollback_keeps_memories_too(self, http: httpx.AsyncClient) -> None:
        await put(http, COOK)
        await remember(http, "Maya cooks rice.", category="recipes")
        refused(await http.post(f"{CONFIG}/rollback", json={"version": 0}), 409, "category_in_use")
        body = {"version": 0, "move": {"recipes": "goals"}}
        assert (await http.post(f"{CONFIG}/rollback", json=body)).json()["moved"] == {"recipes": 1}
