"""Changed policies: copies of the configuration with one value of policies.yaml changed."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

import yaml

from app.config.yaml_files import CONFIG_DIR
from app.domain.recall.profiles import RankingProfile
from bench.evaluation.data import AGENT, DataError

WEIGHTS: Final = frozenset(field.name for field in fields(RankingProfile))
MERGE: Final = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True)
class Change:
    """A changed policy: the dotted path of a value in policies.yaml, and the new value as YAML."""

    path: str
    value: str

    def __str__(self) -> str:
        return f"{self.path}={self.value}"


def parse_sweep(text: str) -> list[Change]:
    """Return the changes of `path=value,value`. Raise DataError."""
    path, _sign, values = text.partition("=")
    found = [Change(path.strip(), value.strip()) for value in values.split(",") if value.strip()]
    if not found or not path.strip():
        raise DataError(f"--sweep takes a path and values, as in profiles.default.late=0.4,0.6; not {text!r}")
    return found


def write_config(folder: Path, categories: Sequence[str], change: Change | None = None) -> Path:
    """Write a copy of the configuration to `folder`: the agent may see the categories, and one policy is changed.

    Raise DataError for a path that policies.yaml does not have.
    """
    for file in CONFIG_DIR.rglob("*.yaml"):
        copy = folder / file.relative_to(CONFIG_DIR)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    known = folder / "memory_cat_config.yaml"
    settings = yaml.safe_load(known.read_text(encoding="utf-8"))
    allowed = settings["allowlists"][AGENT]
    allowed += [name for name in categories if name not in allowed]
    known.write_text(yaml.safe_dump(settings), encoding="utf-8")
    if change is not None:
        policies = folder / "policies.yaml"
        policies.write_text(change_policy(policies.read_text(encoding="utf-8"), change), encoding="utf-8")
    return folder


def change_policy(text: str, change: Change) -> str:
    """Return the YAML with the value changed. Profiles that inherit it with `<<` have it too. Raise DataError."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    *parents, last = change.path.split(".")
    node = root
    for done, name in enumerate(parents):
        node = _child(node, name, ".".join(parents[:done]))
    is_weight = parents[:1] == ["profiles"] and len(parents) == 2 and last in WEIGHTS
    if not is_weight:  # a fitted weight is in a file of the model, and a profile may name its own
        _child(node, last, ".".join(parents))  # must exist, perhaps inherited
    assert isinstance(node, yaml.MappingNode)
    new = yaml.compose(change.value, Loader=yaml.SafeLoader)
    others = [(key, value) for key, value in node.value if key.value != last]
    node.value = [*others, (yaml.ScalarNode("tag:yaml.org,2002:str", last), new)]
    changed: str = yaml.serialize(root)
    return changed


def _child(node: yaml.Node | None, name: str, where: str) -> yaml.Node:
    """Return what a mapping has under a name, itself or inherited. Raise DataError, which lists the names."""
    names: dict[str, yaml.Node] = {}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.tag == MERGE and isinstance(value, yaml.MappingNode):
                names = {inner.value: content for inner, content in value.value} | names
            else:
                names[key.value] = value
    if name not in names:
        place = f"{where!r} of policies.yaml" if where else "policies.yaml"
        raise DataError(f"{place} has no {name!r}; it has: {', '.join(sorted(names)) or 'no names'}")
    return names[name]
