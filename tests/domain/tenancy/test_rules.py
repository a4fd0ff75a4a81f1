"""A tenant's document over the defaults: what merges, what is refused, and how it is written down."""

import dataclasses
import re
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from app.config import tenant_documents as documents
from app.config.loader import load_policies
from app.config.tenant_builder import TenantBuilder
from app.config.tenant_fields import CLASSES, FIELDS, PROFILE_FIELDS
from app.config.tenant_policies import TenantPolicies
from app.config.yaml_files import CONFIG_DIR
from app.domain.principal import Principal
from app.domain.recall.profiles import RankingProfile
from app.domain.tenancy.rules import MAX_DOCUMENT_BYTES, InvalidConfig

DEFAULTS = load_policies("all-MiniLM-L6-v2")
BUILDER = TenantBuilder(DEFAULTS)
ALL_NEEDED = "categories: {system: [{name: activity}, {name: profile}, {name: event}, {name: preferences}]}"


def build(text: str) -> Any:
    return BUILDER.build_policies(documents.parse_yaml(text.encode()))


def test_an_empty_document_gives_the_defaults() -> None:
    assert build("{}") == build("allowlists: {}") == DEFAULTS


def test_own_agents_and_categories_stand_beside_the_defaults() -> None:
    policies = build("{categories: {custom: [{name: food, context: all}]}, allowlists: {cook: [food, profile]}}")
    assert policies.categories.allowlists["cook"] == ("food", "profile")
    assert policies.categories.categories["food"].context == "all"
    assert policies.categories.allowlists["planner"] == DEFAULTS.categories.allowlists["planner"]
    assert policies.categories.categories.items() >= DEFAULTS.categories.categories.items()
    assert policies.query is DEFAULTS.query


def test_null_removes_an_agent_and_an_empty_list_keeps_it() -> None:
    policies = build("allowlists: {planner: null, stylist: []}")
    assert "planner" not in policies.categories.allowlists
    assert policies.categories.allowlists["stylist"] == ()


def test_a_category_of_a_default_list_can_be_named_and_declared() -> None:
    assert "relationship_dynamic" in build("allowlists: {cook: [relationship_dynamic]}").categories.categories
    declared = build("categories: {custom: [{name: relationship_dynamic, label: why}]}").categories.categories
    assert declared["relationship_dynamic"].label == "why"


def test_own_system_categories_replace_the_defaults_and_shorten_their_lists() -> None:
    policies = build(ALL_NEEDED)
    assert set(policies.categories.categories) == {"activity", "profile", "event", "preferences", "procedural"}
    assert policies.categories.allowlists["supervisor"] == ("profile", "preferences", "event", "activity")
    assert policies.categories.allowlists["researcher"] == ()
    assert policies.multi_fact.categories == ("profile", "preferences")
    assert {rule.category for rule in policies.capture.rules} == {"profile", "preferences"}
    assert not policies.draws_insights


def test_fields_merge_key_by_key() -> None:
    policies = build(
        "{query: {top_k: 7}, profiles: {default: {dense: 0.5}, mine: {fusion: zscore}}, delta: {bullets: 1}}"
    )
    assert policies.query == dataclasses.replace(DEFAULTS.query, top_k=7)
    assert policies.profiles["default"] == dataclasses.replace(DEFAULTS.profiles["default"], dense=0.5)
    assert policies.profiles["mine"].fusion == "zscore"
    assert policies.delta_bullets == 1
    assert build("facts: {max_rank: 3}").facts.topics == DEFAULTS.facts.topics
    assert build("query: {rag_length: 7}").categories.categories["tasks"].rag_length == 7


def test_what_a_tenant_may_set_exists_and_has_a_default() -> None:
    for section, names in FIELDS.items():
        assert names.keys() <= {field.name for field in dataclasses.fields(CLASSES[section])}, section
    assert PROFILE_FIELDS.keys() <= {field.name for field in dataclasses.fields(RankingProfile)}


REFUSED = {
    "allowlists: {cook: [profil]}": "allowlists.cook: unknown category 'profil'; did you mean 'profile'?",
    "allowlists: {cook: [zebra]}": "allowlists.cook: unknown category 'zebra'; the known ones are: profile, event",
    "allowlists: {cook: profile}": "allowlists.cook: must be a list of category names",
    "allowlists: {' cook': [profile]}": "allowlists: ' cook': an identifier has 1 to 200 printable characters",
    "allowlists:": "allowlists: must be a mapping",
    "categories: {customs: []}": "categories: unknown 'customs'; a tenant may set: system, custom",
    "categories: {custom: [{name: goals}]}": "categories.custom: category 'goals' is defined twice",
    "categories: {custom: [{name: a, context: some}]}": "Input should be 'all' or 'rag'",
    "categories: {custom: [{name: a, rag_length: 5000}]}": "a: rag_length must be from 1 to 1000",
    'categories: {custom: [{name: a, label: "x\\ny"}]}': "an identifier has 1 to 200 printable characters",
    'categories: {custom: [{name: a, description: "x\\ny"}]}': "a description is one line",
    "categories: {system: [{name: profile}]}": "turns.category: unknown category 'activity'; the known ones are:",
    "jobs: {lease_s: 1}": "jobs is the installation's; a tenant may set: categories, allowlists, write",
    "query: {exact_up_to: 0}": "query.exact_up_to is the installation's; a tenant may set: agent, profile, top_k",
    "profiles: {default: {rerank_candidates: 1000}}": "profiles.default.rerank_candidates is the installation's",
    "profiles: {mine: {dense: 1}}": "profiles.mine.fusion: Field required",
    "profiles: {seed002: null}": "chat.profile: 'reranked' is not one of: default, facts, documents, dense",
    "profiles: {reranked: null}": "chat.profile: 'reranked' is not one of: default, facts, documents, dense",
    "profiles: {default: {dense: .inf}}": "profiles.default.dense: must be a finite number",
    "profiles: {default: {dense: 1000}}": "profiles.default.dense: 1000.0 must be from -100 to 100",
    "query: {agent: nobody}": "query.agent: 'nobody' is not one of: assistant",
    "write: {categories: {semantic: nowhere}}": "write.categories.semantic: unknown category 'nowhere'",
    "write: {categories: 5}": "write.categories",
    "query: {topk: 5}": "query.topk is unknown; did you mean 'top_k'?",
    "quary: {top_k: 5}": "quary is unknown; did you mean 'query'?",
    "query: {top_k: 51}": "query: top_k must be from 1 to 50",
    "query: {top_k: many}": "query.top_k: 'many': Input should be a valid integer",
    "query: {profile: best}": "query.profile: 'best' is not one of: default, facts",
    "lifecycle: {purge_after_days: 40000}": "lifecycle.purge_after_days: 40000 must be from 1 to 36500",
    "turns: {category: procedural}": "turns.category: unknown category 'procedural'",
    "multi_fact: {categories: [goal]}": "multi_fact.categories: unknown category 'goal'; did you mean 'goals'?",
    "insights: {category: guesses}": "insights.category: unknown category 'guesses'",
    "consent: {sensitive: [city]}": "sensitive must list",
    "- a": "the document must be a mapping",
    "a: 1\na: 2": "line 2: the key a is given twice",
    "a: &a [1]\nb: *a": "line 2: anchors and aliases (&, *) are not taken",
    "1: 2": "the name 1 must be a text; quote it",
    "query: {top_k: 2026-01-01}": "query.top_k: date is no value of a rule",
    "query: [1": "line 1, column 10: expected ',' or ']'",
    "query: !!python/object:os.system {}": "could not determine a constructor",
    "a: {b: {c: {d: {e: {f: {g: {h: {i: 1}}}}}}}}": "line 1: nested deeper than 8 levels",
    "allowlists: {" + ", ".join(f"a{n}: []" for n in range(501)) + "}": "allowlists: 507 agents with",
    "categories: {custom: [" + ", ".join(f"{{name: c{n}}}" for n in range(201)) + "]}": "categories: 218 with",
    "": "the document is empty; write {} for the defaults alone",
    "# recipes": "the document is empty; write {} for the defaults alone",
}


@pytest.mark.parametrize(("text", "why"), REFUSED.items(), ids=[text[:60] for text in REFUSED])
def test_a_wrong_document_is_refused_with_its_place_and_the_valid_values(text: str, why: str) -> None:
    with pytest.raises(InvalidConfig, match=re.escape(why)) as refused:
        build(text)
    assert len(refused.value.detail) <= 600


@pytest.mark.parametrize(
    "text", [b'{"a": 1, "a": 2}', b"[" * 100_000, b"nul", b'{"a": NaN}', b"\xff", b'"x"', b'{"a": 1e999}']
)
def test_wrong_json_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidConfig):
        documents.parse_json(text)


@pytest.mark.parametrize("parse", [documents.parse_yaml, documents.parse_json])
def test_a_large_document_is_refused_unread(parse: Any) -> None:
    with pytest.raises(InvalidConfig, match=f"larger than {MAX_DOCUMENT_BYTES} bytes"):
        parse(b" " * (MAX_DOCUMENT_BYTES + 1))


def test_a_document_survives_being_written_and_read() -> None:
    given = {"turns": {"category": "event"}, "allowlists": {"b": ["profile"], "a": None}, "categories": {"custom": []}}
    text = documents.render_document(given)
    assert documents.parse_yaml(text.encode()) == given
    assert [line.split(":")[0] for line in text.splitlines() if line[0] != " "] == ["categories", "allowlists", "turns"]
    assert documents.render_document({}) == "{}\n"


@pytest.mark.long
@pytest.mark.parametrize("agents", [3, 2000])
def test_the_difference_of_two_documents_names_only_what_changed(agents: int) -> None:
    before = {"allowlists": {f"agent{n:04}": ["profile"] for n in range(agents)}}
    after = {"allowlists": before["allowlists"] | {"agent0001": ["goals"]}}
    lines = documents.compare_documents(before, after, ("version 1", "version 2"))
    assert lines[:2] == ["--- version 1", "+++ version 2"]
    assert [line for line in lines[2:] if line[0] in "+-"] == ["-  agent0001: [profile]", "+  agent0001: [goals]"]
    assert documents.compare_documents(before, before, ("a", "b")) == []


class TestBook:
    """The policies in force of all tenants."""

    def test_a_tenant_without_rules_has_the_defaults(self) -> None:
        assert TenantPolicies(DEFAULTS).of(Principal(uuid.uuid4())) is DEFAULTS

    def test_a_new_document_applies_to_its_tenant_alone_from_the_next_look_up(self) -> None:
        book, one, other = TenantPolicies(DEFAULTS, BUILDER.build_policies), uuid.uuid4(), uuid.uuid4()
        book.put_document(one, 1, '{"query": {"top_k": 9}}')
        assert (book.of_tenant(one).query.top_k, book.version_of(one)) == (9, 1)
        assert book.of_tenant(other) is DEFAULTS
        assert book.of_tenant(one) is book.of_tenant(one)  # built once
        book.put_document(one, 2, "{}")
        assert book.of_tenant(one) == DEFAULTS

    def test_an_older_document_never_replaces_a_newer_one(self) -> None:
        book, tenant = TenantPolicies(DEFAULTS, BUILDER.build_policies), uuid.uuid4()
        book.put_document(tenant, 2, '{"query": {"top_k": 9}}')
        book.put_document(tenant, 1, '{"query": {"top_k": 3}}')
        assert book.of_tenant(tenant).query.top_k == 9

    def test_a_document_that_comes_during_a_build_is_not_lost(self) -> None:
        tenant, came = uuid.uuid4(), iter([2])

        def build_slowly(document: Any) -> Any:
            if version := next(came, None):  # another thread takes a newer document
                book.put_document(tenant, version, '{"query": {"top_k": 3}}')
            return BUILDER.build_policies(document)

        book = TenantPolicies(DEFAULTS, build_slowly)
        book.put_document(tenant, 1, '{"query": {"top_k": 9}}')
        assert book.of_tenant(tenant).query.top_k == 3
        assert book.of_tenant(tenant).query.top_k == 3

    def test_a_document_that_is_not_valid_any_more_leaves_the_last_valid_policies(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told: list[str] = []
        monkeypatch.setattr(
            "app.config.tenant_policies.log", SimpleNamespace(error=lambda event, **_fields: told.append(event))
        )
        book, tenant, stranger = TenantPolicies(DEFAULTS, BUILDER.build_policies), uuid.uuid4(), uuid.uuid4()
        book.put_document(tenant, 1, '{"query": {"top_k": 9}}')
        assert book.of_tenant(tenant).query.top_k == 9
        for name in (tenant, stranger):
            book.put_document(name, 2, '{"query": {"profile": "gone"}}')
        assert book.of_tenant(tenant).query.top_k == 9
        assert book.of_tenant(tenant).query.top_k == 9
        assert book.of_tenant(stranger).query == DEFAULTS.query
        assert told == ["tenant_config_invalid"] * 2, "once for each tenant"

    def test_without_any_valid_document_no_agent_sees_anything(self) -> None:
        book, tenant = TenantPolicies(DEFAULTS, BUILDER.build_policies), uuid.uuid4()
        for version in (1, 2):
            book.put_document(tenant, version, '{"allowlists": {"planner": [], "cook": ["gone"]}}')
            closed = book.of_tenant(tenant)
            assert closed.categories.visible_to([*DEFAULTS.categories.allowlists, "cook"]) == frozenset()
            assert closed.categories.categories == DEFAULTS.categories.categories
            assert set(closed.consent.sensitive) == set(DEFAULTS.consent.field_names)
            assert closed.consent.benign == ()
        book.put_document(tenant, 3, "{}")
        assert book.of_tenant(tenant) == DEFAULTS


def test_the_shipped_files_are_a_valid_document() -> None:
    """The format of a document is that of the files."""
    shipped = yaml.safe_load((CONFIG_DIR / "memory_cat_config.yaml").read_text(encoding="utf-8"))
    shipped["categories"]["custom"] = [{"name": "relationship_dynamic"}]
    assert BUILDER.build_policies(shipped).categories.allowlists == DEFAULTS.categories.allowlists
