"""The reading of a policy file: YAML to frozen policies, with errors that name the file and field."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from app.domain.errors import ConfigError

T = TypeVar("T")
CONFIG_DIR = Path(__file__).resolve().parents[2] / "config"
MAX_SHOWN = 200
"""The characters of a wrong value that an error repeats."""
_LOADER: type[yaml.SafeLoader | yaml.CSafeLoader] = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}


def read_yaml(path: Path, required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the mapping in a file. Raise ConfigError if there is none, or a required section is missing."""
    try:
        loaded = _parse_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot read {path.name}: {error}") from error
    missing = [name for name in required if not isinstance(loaded, dict) or name not in loaded]
    if missing or not isinstance(loaded, dict):
        raise ConfigError(f"{path.name} must have: {', '.join(missing) or 'a mapping'}")
    return loaded


def _parse_yaml(text: str) -> Any:
    """Parse with libyaml, which takes a tenth of the time; parse again without it for an error that shows the line."""
    try:
        return yaml.load(text, Loader=_LOADER)
    except yaml.YAMLError:
        return yaml.safe_load(text)


def check_mapping(values: Any, where: str) -> dict[str, Any]:
    """Return `values` if they are a mapping of names, else raise ConfigError."""
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise ConfigError(f"{where}: must be a mapping of names")
    return values


def check_list(values: Any, where: str) -> list[Any]:
    """Return `values` if they are a list, else raise ConfigError."""
    if not isinstance(values, list):
        raise ConfigError(f"{where}: must be a list")
    return values


def build_policy(cls: type[T], values: Any, where: str) -> T:
    """Build `cls` from a mapping. Raise ConfigError if a field's name, type or range is not valid."""
    known = {f.name for f in fields(cls)}  # type: ignore[arg-type]  # every caller passes a dataclass
    if unknown := sorted(set(check_mapping(values, where)) - known):
        raise ConfigError(f"{where}: unknown {', '.join(unknown)}")
    try:
        return _adapter_of(cls).validate_json(json.dumps(values, default=str), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join([where, *(str(part) for part in first["loc"])])
        value = "" if isinstance(first["input"], dict) else f"{repr(first['input'])[:MAX_SHOWN]}: "
        raise ConfigError(f"{place}: {value}{first['msg'].removeprefix('Value error, ')}") from error


def _adapter_of(cls: type[T]) -> TypeAdapter[T]:
    """Return the validator of a policy. To build one takes longer than to use it."""
    if cls not in _ADAPTERS:
        _ADAPTERS[cls] = TypeAdapter(cls)
    return _ADAPTERS[cls]
