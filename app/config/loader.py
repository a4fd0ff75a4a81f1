"""YAML into frozen policy objects, checked at boot: a server with a wrong configuration does not start."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import yaml

from app.domain.categories import Category, CategoryPolicy
from app.domain.errors import ConfigError
from app.domain.lifecycle import LifecyclePolicy
from app.domain.merge_bands import MergeBands
from app.domain.scoring import Profile
from app.domain.text_rules import TextLimits

CONFIG_DIR = Path(__file__).resolve().parents[2] / "config"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WritePolicy:
    """Of writing memories (SPEC §1)."""

    default_importance: int = 2
    min_importance: int = 1
    merge_mode: Literal["update", "recreate"] = "update"
    attempts: int = 5
    text_limits: TextLimits = field(default_factory=TextLimits)


@dataclass(frozen=True, slots=True)
class QueryPolicy:
    """Of memory.query (SPEC §2)."""

    profile: str = "default"
    top_k: int = 5
    budget_tokens: int = 512
    rag_length: int = 30
    whole_limit: int = 200
    related: int = 2


@dataclass(frozen=True, slots=True)
class Policies:
    """Everything `config/` says about behaviour."""

    write: WritePolicy
    query: QueryPolicy
    delta_bullets: int
    lifecycle: LifecyclePolicy
    turn_category: str
    profiles: Mapping[str, Profile]
    categories: CategoryPolicy
    bands: MergeBands


def load_policies(model: str, directory: Path = CONFIG_DIR) -> Policies:
    """Read and check every policy file; `model` picks the merge bands. Raises ConfigError naming file and field."""
    raw = _read(directory / "policies.yaml", ("write", "query", "delta", "lifecycle", "turns", "profiles"))
    write = dict(raw["write"])
    write["text_limits"] = _build(TextLimits, write.get("text_limits", {}), "write.text_limits")
    query = _build(QueryPolicy, raw["query"], "query")
    profiles = {
        name: _build(Profile, {"name": name, **body}, f"profiles.{name}") for name, body in raw["profiles"].items()
    }
    if query.profile not in profiles:
        raise ConfigError(f"query.profile {query.profile!r} is not one of {', '.join(profiles)}")
    categories = load_categories(directory / "memory_cat_config.yaml", query.rag_length)
    turn_category = str(raw["turns"]["category"])
    if turn_category not in categories.categories:
        raise ConfigError(f"turns.category {turn_category!r} is not a known category")
    return Policies(
        write=_build(WritePolicy, write, "write"),
        query=query,
        delta_bullets=int(raw["delta"]["bullets"]),
        lifecycle=_build(LifecyclePolicy, raw["lifecycle"], "lifecycle"),
        turn_category=turn_category,
        profiles=profiles,
        categories=categories,
        bands=_bands(directory / "models", model),
    )


def load_categories(path: Path, rag_length: int) -> CategoryPolicy:
    """The categories file: known = system ∪ custom ∪ every name in an allowlist (seed 003 §5)."""
    raw = _read(path, ("categories", "allowlists"))
    known: dict[str, Category] = {}
    for group in ("system", "custom"):
        for entry in raw["categories"].get(group) or []:
            category = _build(Category, {"rag_length": rag_length, **entry}, f"{path.name}: category")
            if category.name in known:
                raise ConfigError(f"{path.name}: category {category.name!r} is defined twice")
            if category.context not in ("all", "rag") or category.rag_length < 1:
                raise ConfigError(f"{path.name}: {category.name}: context is all or rag, rag_length at least 1")
            known[category.name] = category
    allowlists: dict[str, tuple[str, ...]] = {}
    for agent, names in (raw["allowlists"] or {}).items():
        if not isinstance(names, list) or not all(isinstance(n, str) and n for n in names):
            raise ConfigError(f"{path.name}: allowlist of {agent!r} must be a list of category names")
        allowlists[str(agent)] = tuple(names)
        for name in names:
            known.setdefault(name, Category(name=name, rag_length=rag_length))
    return CategoryPolicy(known, allowlists)


def _bands(directory: Path, model: str) -> MergeBands:
    path = directory / f"{model.replace('/', '__')}.yaml"
    return _build(MergeBands, _read(path), path.name) if path.exists() else MergeBands()


def _read(path: Path, required: tuple[str, ...] = ()) -> dict[str, Any]:
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot read {path.name}: {error}") from error
    if not isinstance(loaded, dict) or (missing := [k for k in required if k not in loaded]):
        raise ConfigError(f"{path.name} must have: {', '.join(missing if isinstance(loaded, dict) else required)}")
    return loaded


def _build(cls: type[T], values: Any, where: str) -> T:
    """`cls(**values)` with the field names, simple types and literals checked."""
    known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]  # every caller passes a dataclass
    if not isinstance(values, dict) or (unknown := set(values) - set(known)):
        raise ConfigError(f"{where}: unknown {', '.join(sorted(unknown if isinstance(values, dict) else {'shape'}))}")
    for name, value in values.items():
        kind = known[name].type
        allowed = get_args(kind)
        if getattr(kind, "__origin__", None) is Literal and value not in allowed:
            raise ConfigError(f"{where}.{name}: {value!r} is not one of {', '.join(map(str, allowed))}")
        if kind in (int, float, str, bool) and not _fits(value, kind):
            raise ConfigError(f"{where}.{name}: {value!r} is not {getattr(kind, '__name__', kind)}")
    try:
        return cls(**values)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {error}") from error


def _fits(value: Any, kind: Any) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)
