"""The loader of config/: a server with an invalid configuration does not start, and says what is wrong."""

import os
import shutil
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.config.loader import Policies, load_policies
from app.config.settings import Settings
from app.config.tenant_fields import CLASSES
from app.config.yaml_files import CONFIG_DIR
from app.domain.consolidation.comparison import ConsolidationPolicy
from app.domain.errors import ConfigError

MODEL = "all-MiniLM-L6-v2"
POLICIES = "policies.yaml"
CATEGORIES = "memory_cat_config.yaml"
BANDS = f"models/{MODEL}.yaml"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Copy the shipped configuration and return its folder."""
    return Path(shutil.copytree(CONFIG_DIR, tmp_path / "config"))


def _load(config: Path) -> Policies:
    return load_policies(MODEL, config)


def _edit(config: Path, file: str, change: Callable[[Any], Any]) -> None:
    path = config / file
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(yaml.safe_dump(content, allow_unicode=True, sort_keys=False), encoding="utf-8")


def _set(config: Path, file: str, place: str, value: Any) -> None:
    def change(content: Any) -> None:
        *parents, last = place.split(".")
        for name in parents:
            content = content[int(name) if isinstance(content, list) else name]
        content[last] = value

    _edit(config, file, change)


def test_the_shipped_configuration_loads() -> None:
    policies = load_policies(MODEL)
    assert (policies.query.top_k, policies.query.budget_tokens, policies.delta_bullets) == (5, 512, 3)
    assert (policies.write.merge_mode, policies.write.min_importance) == ("update", 1)
    assert policies.write.text_limits.semantic == 280
    assert (policies.bands.link_min, policies.bands.auto_update_equality_only) == (0.42, True)
    assert set(policies.profiles) >= {"default", "reranked"}
    assert policies.consolidation == ConsolidationPolicy(), "the file and the defaults say the same"


def test_a_model_without_a_file_of_its_own_gets_the_careful_bands(config: Path) -> None:
    bands = load_policies("vendor/unknown-model", config).bands
    assert (bands.auto_update, bands.check_low, bands.fallback_low, bands.link_min) == (0.85, 0.60, 0.30, 0.5)
    assert (bands.auto_update_equality_only, bands.fallback_on_write) == (True, False)
    (config / "models" / "vendor__unknown-model.yaml").write_text("check_low: 0.7\n")
    assert load_policies("vendor/unknown-model", config).bands.check_low == 0.7


def test_what_a_file_says_is_what_applies(config: Path) -> None:
    _set(config, POLICIES, "write.merge_mode", "recreate")
    _set(config, POLICIES, "profiles.quick", {"fusion": "zscore", "dense": 1, "lexical": 0.0})
    _set(config, POLICIES, "query.profile", "quick")
    _set(config, CATEGORIES, "categories.custom", [{"name": "hobbies", "label": "Hobbies", "numeric_update": True}])
    policies = _load(config)
    assert (policies.write.merge_mode, policies.query.profile) == ("recreate", "quick")
    assert policies.profiles["quick"].dense == 1
    hobbies = policies.categories.get_category("hobbies")
    assert (hobbies.label, hobbies.numeric_update, hobbies.context, hobbies.rag_length) == ("Hobbies", True, "rag", 30)


def test_a_tenant_has_the_usual_limits_but_for_what_is_said_of_it(config: Path) -> None:
    _set(config, POLICIES, "limits.tenants", {"acme": {"requests_per_minute": {"key": 7, "tenant": None}}})
    limits = _load(config).limits
    acme, usual = limits.tenants["acme"], limits.usual
    assert (acme.requests_per_minute.key, acme.requests_per_minute.tenant) == (7, None)
    assert acme.memories_per_day == usual.memories_per_day
    assert (usual.requests_per_minute.key, usual.requests_per_minute.tenant) == (60_000, 240_000)


def test_a_category_only_an_allowlist_names_is_ranked_with_the_default_length(config: Path) -> None:
    _set(config, POLICIES, "query.rag_length", 12)
    _set(config, CATEGORIES, "allowlists.writer", ["drafts", "profile"])
    categories = _load(config).categories
    assert (categories.get_category("drafts").context, categories.get_category("drafts").rag_length) == ("rag", 12)
    assert categories.get_category("profile").context == "all"
    assert categories.get_category("activity").rag_length == 50


def test_a_slip_of_the_pen_in_an_allowlist_is_refused_unless_the_category_is_declared(config: Path) -> None:
    _set(config, CATEGORIES, "categories.custom", [{"name": "food"}])
    _set(config, CATEGORIES, "allowlists.stylist", ["style", "fod"])
    with pytest.raises(ConfigError, match="allowlist of 'stylist': unknown category 'fod'; did you mean 'food'"):
        _load(config)
    _set(config, CATEGORIES, "categories.custom", [{"name": "food"}, {"name": "fod"}])
    assert "fod" in _load(config).categories.categories


SMALLEST = """
categories:
  system:
    - name: profile
      context: all
    - name: event
      context: rag
      rag_length: 30
    - name: activity
      context: rag
      rag_length: 50
  custom: []
allowlists:
  supervisor: [profile, goals, preferences, event, activity, relationships, tasks]
  planner:    [goals, tasks, projects]
  stylist:    [preferences, tone, style]
  researcher: [knowledge, interests, history]
  executor:   [tasks, recent_activity, constraints]
"""


def test_without_their_category_insights_are_off_and_the_rest_goes_on(config: Path) -> None:
    assert _load(config).configuration_warnings == ()
    (config / CATEGORIES).write_text(SMALLEST, encoding="utf-8")
    policies = _load(config)
    assert not policies.draws_insights
    [warning] = policies.configuration_warnings
    assert "insights are off" in warning
    assert "'relationship_dynamic'" in warning
    assert policies.categories.get_category("tasks").context == "rag"


UNKNOWN = [
    (POLICIES, "write.merge_modus", "update", r"write.*merge_modus"),
    (POLICIES, "write.text_limits.poem", 5, r"text_limits.*poem"),
    (POLICIES, "query.topk", 5, r"query.*topk"),
    (POLICIES, "lifecycle.forever", True, r"lifecycle.*forever"),
    (POLICIES, "consolidation.pool_days", 3, r"consolidation.*pool_days"),
    (POLICIES, "jobs.lease", 60, r"jobs.*lease"),
    (POLICIES, "profiles.default.densse", 0.5, r"profiles\.default.*densse"),
    (CATEGORIES, "categories.custom", [{"name": "x", "contxt": "all"}], r"categor.*contxt"),
    (BANDS, "auto_updat", 0.5, r"MiniLM.*auto_updat"),
    (POLICIES, "limits.requests_per_hour", {"key": 1}, r"limits.*requests_per_hour"),
    (POLICIES, "limits.tenants", {"acme": {"requests": {"key": 1}}}, r"limits\.tenants\.acme.*requests"),
]
WRONG = [
    (POLICIES, "write.min_importance", "high", r"write\.min_importance.*'high'.*int"),
    (POLICIES, "write.min_importance", True, r"write\.min_importance.*True.*int"),
    (POLICIES, "write.attempts", 2.5, r"write\.attempts.*2\.5.*int"),
    (POLICIES, "write.merge_mode", "replace", r"write\.merge_mode.*'replace'.*update"),
    (POLICIES, "write.text_limits.semantic", "280", r"text_limits\.semantic.*'280'"),
    (POLICIES, "write.text_limits.semantic", 0, r"text_limits.*semantic"),
    (POLICIES, "query.profile", "fast", r"query\.profile 'fast'.*default, facts, documents, dense, reranked"),
    (POLICIES, "query", 7, r"query"),
    (POLICIES, "profiles.default.fusion", "magic", r"profiles\.default\.fusion.*'magic'.*zscore"),
    (POLICIES, "profiles.default.dense", "0.6", r"profiles\.default\.dense.*'0\.6'.*number"),
    (POLICIES, "lifecycle.purge_after_days", 0, r"lifecycle.*purge_after_days"),
    (POLICIES, "consolidation.pool_hours", 1.5, r"consolidation\.pool_hours.*1\.5.*int"),
    (POLICIES, "jobs.heartbeat_s", 31, r"jobs.*heartbeat_s"),
    (POLICIES, "jobs.max_attempts", 2.5, r"jobs\.max_attempts.*2\.5.*int"),
    (POLICIES, "jobs.schedule", {"sleep": 60}, r"jobs\.schedule.*'sleep'"),
    (POLICIES, "limits.requests_per_minute.key", "60", r"limits\.requests_per_minute\.key.*'60'.*int"),
    (POLICIES, "limits.tenants", {"acme": {"memories_per_day": {"key": 1.5}}}, r"limits\.tenants\.acme.*1\.5.*int"),
    (POLICIES, "llm.daily_tokens", -1, r"llm.*daily_tokens must be at least 0"),
    (POLICIES, "llm.wait_days", -1, r"llm.*wait_days must be at least 0"),
    (POLICIES, "episodes.turns", 0, r"episodes.*turns must be at least 1"),
    (POLICIES, "episodes.join_at", 0.1, r"episodes.*join_at must be from 0.5 to 1"),
    (POLICIES, "episodes.category", "nowhere", r"episodes.category 'nowhere' is not a known category"),
    (POLICIES, "summaries.characters", 10, r"summaries.*characters must be from 100 to 8000"),
    (POLICIES, "insights.hours", 1, r"insights.*hours must be at least 24"),
    (POLICIES, "insights.talk_characters", 2000, r"insights.*talk_characters must be from 0 to 1000"),
    (POLICIES, "insights.category", "relationship_dynamics", r"insights.category.*did you mean 'relationship_dynamic'"),
    (POLICIES, "insights.category", "procedural", r"insights.category 'procedural' is not a known category"),
    (POLICIES, "multi_fact.categories", ["profile", "nowhere"], r"multi_fact\.categories: nowhere"),
    (POLICIES, "multi_fact.categories", ["procedural"], r"multi_fact\.categories: procedural"),
    (POLICIES, "multi_fact.per_turn", 6, r"multi_fact.*per_turn must be from 0 to 5"),
    (POLICIES, "turns.category", "nowhere", r"turns\.category 'nowhere'"),
    (CATEGORIES, "categories.custom", [{"name": "goals"}], r"'goals' is defined twice"),
    (CATEGORIES, "categories.custom", [{"context": "all"}], r"name"),
    (CATEGORIES, "categories.custom", [{"name": "x", "context": "some"}], r"context.*'some'|context is all or rag"),
    (CATEGORIES, "categories.custom", [{"name": "x", "rag_length": 0}], r"rag_length"),
    (CATEGORIES, "categories.custom", [{"name": "x", "numeric_update": "yes"}], r"numeric_update.*'yes'.*bool"),
    (
        CATEGORIES,
        "allowlists.planner",
        ["goal"],
        r"'planner': unknown category 'goal'; did you mean 'goals'",
    ),
    (CATEGORIES, "allowlists.planner", ["Goals"], r"unknown category 'Goals'; did you mean 'goals'"),
    (CATEGORIES, "allowlists.planner", ["procedual"], r"did you mean 'procedural'.*categories\.custom"),
    (CATEGORIES, "allowlists.planner", ["goals", "taks"], r"unknown category 'taks'; did you mean 'tasks'"),
    (CATEGORIES, "allowlists.planner", "tasks", r"allowlist of 'planner'"),
    (CATEGORIES, "allowlists.planner", ["tasks", 7], r"allowlist of 'planner'"),
    (CATEGORIES, "allowlists.planner", [""], r"allowlist of 'planner'"),
    (BANDS, "fallback_low", 0.99, r"MiniLM.*fallback_low <= check_low"),
    (BANDS, "neighbours", 0, r"neighbours"),
    (BANDS, "link_min", 1.5, r"link_min"),
]
SHAPES = [
    (POLICIES, "write", None, r"write"),
    (POLICIES, "write.text_limits", [1], r"text_limits"),
    (POLICIES, "delta", {}, r"delta"),
    (POLICIES, "delta.bullets", "three", r"delta"),
    (POLICIES, "lifecycle", [30], r"lifecycle"),
    (POLICIES, "consolidation", None, r"consolidation"),
    (POLICIES, "limits", None, r"limits"),
    (POLICIES, "limits.requests_per_minute", 60, r"limits"),
    (POLICIES, "limits.tenants", ["acme"], r"limits\.tenants"),
    (POLICIES, "limits.tenants", {"acme": 60}, r"limits\.tenants\.acme"),
    (POLICIES, "limits.tenants", {"acme": {"requests_per_minute": 60}}, r"limits\.tenants\.acme"),
    (POLICIES, "turns", {}, r"turns"),
    (POLICIES, "turns", "activity", r"turns"),
    (POLICIES, "profiles", ["default"], r"profiles"),
    (POLICIES, "profiles.default", None, r"profiles"),
    (POLICIES, "profiles.default.score_threshold", "high", r"score_threshold"),
    (POLICIES, "query", {7: 5}, r"query"),
    (CATEGORIES, "categories", ["goals"], r"categories"),
    (CATEGORIES, "categories.custom", ["goals"], r"categor"),
    (CATEGORIES, "categories.custom", [{"name": "x", "label": ["X"]}], r"label"),
    (CATEGORIES, "allowlists", ["planner"], r"allowlists"),
]
IMPOSSIBLE = [
    (POLICIES, "limits.requests_per_minute.key", 0, r"limits.*at least 1"),
    (POLICIES, "limits.tenants", {"acme": {"memories_per_day": {"tenant": -1}}}, r"limits\.tenants\.acme.*at least 1"),
    (POLICIES, "write.attempts", 0, r"attempts"),
    (POLICIES, "query.top_k", 0, r"top_k"),
    (POLICIES, "query.budget_tokens", -1, r"budget_tokens"),
    (POLICIES, "query.rag_length", 0, r"rag_length"),
    (POLICIES, "consolidation.fingerprint_days", 0, r"fingerprint_days"),
    (POLICIES, "consolidation.pool_top_share", 1.5, r"pool_top_share"),
    (POLICIES, "consolidation.pool_importance", 6, r"pool_importance"),
    (POLICIES, "profiles.default.recency_days", 0, r"recency_days"),
    (POLICIES, "profiles.default.dense_candidates", 0, r"dense_candidates"),
    (POLICIES, "profiles.reranked.mmr_lambda", 7.0, r"mmr_lambda"),
    (POLICIES, "profiles.reranked.pool", 0, r"pool"),
]


@pytest.mark.parametrize(("file", "place", "value", "message"), [*UNKNOWN, *WRONG, *SHAPES, *IMPOSSIBLE])
def test_what_cannot_be_right_is_refused_by_name(config: Path, file: str, place: str, value: Any, message: str) -> None:
    _set(config, file, place, value)
    with pytest.raises(ConfigError, match=message) as caught:
        _load(config)
    assert caught.value.code == "config_invalid"


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        (POLICIES, "write: {merge_mode: update", r"policies\.yaml"),
        (POLICIES, "write:\n\tmerge_mode: update\n", r"policies\.yaml.*line 2"),
        (POLICIES, "", r"policies\.yaml.*write, query"),
        (POLICIES, "- write\n", r"policies\.yaml.*write, query"),
        (POLICIES, "write: {}\nquery: {}\n", r"policies\.yaml.*delta"),
        (CATEGORIES, "categories: [", r"memory_cat_config\.yaml"),
        (CATEGORIES, "categories: {}\n", r"memory_cat_config\.yaml.*allowlists"),
        (BANDS, "auto_update: [", r"all-MiniLM-L6-v2\.yaml"),
        (BANDS, "", r"all-MiniLM-L6-v2\.yaml"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_line(config: Path, file: str, text: str, message: str) -> None:
    (config / file).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        _load(config)


def test_a_file_in_another_encoding_is_named(config: Path) -> None:
    (config / POLICIES).write_bytes("write: {merge_mode: \xfcpdate}".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"policies\.yaml"):
        _load(config)


@pytest.mark.parametrize("file", [POLICIES, CATEGORIES])
def test_a_missing_file_is_named(config: Path, file: str) -> None:
    (config / file).unlink()
    with pytest.raises(ConfigError, match=file):
        _load(config)


def test_an_empty_list_of_categories_or_agents_is_no_error(config: Path) -> None:
    _set(config, CATEGORIES, "categories.custom", None)
    _set(config, CATEGORIES, "allowlists.idle", [])
    assert _load(config).categories.allowlists["idle"] == ()


def test_policies_cannot_be_changed_once_loaded() -> None:
    policies = load_policies(MODEL)
    with pytest.raises(AttributeError):
        policies.write.min_importance = 5  # type: ignore[misc]


def test_the_shipped_policies_are_the_defaults_of_the_code() -> None:
    shipped = load_policies(MODEL)
    for section, policy in CLASSES.items():
        if section in ("delta", "turns"):  # these have no defaults in the code
            continue
        found = getattr(shipped, section)
        changed = {f.name for f in fields(policy) if getattr(found, f.name) != getattr(policy(), f.name)}
        assert changed <= {"topics"}, section  # topics are in facts.yaml


@pytest.mark.parametrize(
    ("variables", "reconciles"),
    [
        ({}, True),
        ({"LONG_MEMORIES_LOG": "1"}, False),
        ({"LONG_MEMORIES_LOG": "0"}, True),
        ({"LONG_MEMORIES_LOG": ""}, True),
        ({"MEMORY_RECONCILE_ENABLED": "0"}, False),
        ({"MEMORY_RECONCILE_ENABLED": "1", "LONG_MEMORIES_LOG": "true"}, False),
        ({"MNEMA_LONG_MEMORIES_LOG": "1"}, False),
        ({"MNEMA_MEMORY_RECONCILE_ENABLED": "0", "LONG_MEMORIES_LOG": "0"}, False),
        ({"MNEMA_MEMORY_RECONCILE_ENABLED": "1", "MEMORY_RECONCILE_ENABLED": "0"}, True),
    ],
)
def test_buckets_are_switched_off_by_name(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], reconciles: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Settings().memory_reconcile_enabled is reconciles


def test_a_settings_file_may_switch_buckets_off_by_either_name(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(Settings.model_config, "yaml_file", config / "settings.yaml")
    for line in ("long_memories_log: true", "memory_reconcile_enabled: false"):
        (config / "settings.yaml").write_text(f"{line}\n", encoding="utf-8")
        assert not Settings().memory_reconcile_enabled, line


def test_a_profile_has_the_weights_fitted_for_the_model_unless_it_names_its_own(config: Path) -> None:
    fitted = _load(config).weights["default"]
    assert _load(config).profiles["default"].actor == fitted["actor"]
    _set(config, POLICIES, "profiles.default.actor", 0.5)
    changed = _load(config).profiles["default"]
    assert (changed.actor, changed.date) == (0.5, fitted["date"])
    other = load_policies("vendor/unknown-model", config)
    assert other.profiles["default"].dense == other.weights["default"]["dense"] != fitted["dense"]
    _set(config, POLICIES, "profiles.default.weights", "mine")
    with pytest.raises(ConfigError, match=r"profiles\.default\.weights: 'mine' is not one of: default"):
        _load(config)


def test_a_file_with_the_old_name_of_a_profile_is_read(config: Path) -> None:
    shipped = (config / POLICIES).read_text(encoding="utf-8")
    (config / POLICIES).write_text(shipped.replace("reranked", "seed002"), encoding="utf-8")
    assert _load(config).profiles["reranked"] == load_policies(MODEL).profiles["reranked"]
    _set(config, POLICIES, "profiles.reranked", {"fusion": "sigmoid"})
    with pytest.raises(ConfigError, match="an old name of 'reranked'"):
        _load(config)


def test_a_wrong_switch_of_buckets_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONG_MEMORIES_LOG", "perhaps")
    with pytest.raises(ConfigError, match="LONG_MEMORIES_LOG"):
        Settings()


def test_a_secret_may_have_any_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = bytes(range(0x80, 0xC0))
    monkeypatch.setenv("MNEMA_SECRET_KEY", os.fsdecode(secret))
    assert Settings().erasure_secret() == secret
