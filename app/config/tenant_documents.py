"""The text form of a tenant's rules: YAML or JSON to a checked document and back, and the difference of two.

Every function takes time linear in its text. For a large text, call it in a thread beside the event loop.
"""

import difflib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import yaml
from mnema_wire.unique_keys import RepeatedKey, load_json

from app.config.tenant_fields import FIELDS
from app.domain.errors import InvalidInput
from app.domain.ids import check_storable
from app.domain.tenancy.rules import MAX_DOCUMENT_BYTES, InvalidConfig

MAX_DEPTH: Final = 8
MAX_EVENTS: Final = 20_000
"""Maximum values, keys and brackets of a YAML text, because its parser is slow."""
MAX_SCALAR: Final = 4_000
MAX_NUMBER: Final = 2**53
MAX_COMPARED: Final = 1_000
"""Maximum lines that are compared one by one. The comparison of more lines would take too long."""
CONTEXT: Final = 3
ORDER: Final = ("categories", "allowlists", *FIELDS, "profiles")
_TOO_LARGE: Final = f"the document is larger than {MAX_DOCUMENT_BYTES} bytes"


class _StrictLoader(yaml.SafeLoader):
    """The safe loader, which refuses a key that is given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise InvalidConfig(f"line {_line_of(key)}: a name must be a text")
            if key.value in seen:
                raise InvalidConfig(f"line {_line_of(key)}: the key {_shown(key.value)} is given twice")
            seen.add(key.value)
        built: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return built


def parse_yaml(text: bytes) -> dict[str, Any]:
    """Return the document of a YAML text. Raise InvalidConfig, which names the line."""
    if len(text) > MAX_DOCUMENT_BYTES:
        raise InvalidConfig(_TOO_LARGE)
    try:
        decoded = text.decode("utf-8")
        _check_events(yaml.parse(decoded, Loader=yaml.SafeLoader))
        loaded = yaml.load(decoded, Loader=_StrictLoader)  # a safe loader
    except UnicodeDecodeError as error:
        raise InvalidConfig("the document is not UTF-8") from error
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidConfig(_describe_fault(error)) from error
    if loaded is None:
        raise InvalidConfig("the document is empty; write {} for the defaults alone")
    return check_document(loaded)


def parse_json(text: bytes) -> dict[str, Any]:
    """Return the document of a JSON text. Raise InvalidConfig."""
    if len(text) > MAX_DOCUMENT_BYTES:
        raise InvalidConfig(_TOO_LARGE)
    try:
        loaded = load_json(text)
    except RepeatedKey as error:
        raise InvalidConfig(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise InvalidConfig(f"the document is no JSON: {str(error)[:200]}") from error
    return check_document(loaded)


def check_document(value: Any) -> dict[str, Any]:
    """Return a document that can be stored: names, texts, finite numbers, lists and mappings. Raise InvalidConfig."""
    if not isinstance(value, dict):
        raise InvalidConfig("the document must be a mapping, such as `allowlists: {helper: [profile]}`")
    _check_value(value, "", MAX_DEPTH)
    if len(json.dumps(value, ensure_ascii=False).encode()) > MAX_DOCUMENT_BYTES:
        raise InvalidConfig(_TOO_LARGE)
    return value


def render_document(document: Mapping[str, Any]) -> str:
    """Return the document as YAML, the sections in the order of the files, and agents by name."""
    listed = {name: document[name] for name in (*ORDER, *sorted(document.keys() - set(ORDER))) if name in document}
    if isinstance(agents := listed.get("allowlists"), Mapping):
        listed["allowlists"] = dict(sorted(agents.items()))
    if not listed:
        return "{}\n"
    return yaml.safe_dump(listed, allow_unicode=True, sort_keys=False, default_flow_style=None, width=120)


def compare_documents(before: Mapping[str, Any], after: Mapping[str, Any], names: tuple[str, str]) -> list[str]:
    """Return the lines of a unified diff of two documents as YAML; none if they are equal."""
    old, new = (render_document(document).splitlines() for document in (before, after))
    if old == new:
        return []
    if len(old) + len(new) <= MAX_COMPARED:
        return list(difflib.unified_diff(old, new, *names, lineterm="", n=CONTEXT))
    start = _common_start(old, new)
    end = _common_start(old[start:][::-1], new[start:][::-1])
    gone = old[start : len(old) - end]
    added = new[start : len(new) - end]
    header = f"@@ -{start + 1},{len(gone)} +{start + 1},{len(added)} @@"
    return [f"--- {names[0]}", f"+++ {names[1]}", header, *(f"-{one}" for one in gone), *(f"+{one}" for one in added)]


def _common_start(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the number of equal lines at the start."""
    return next(
        (at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), min(len(old), len(new))
    )


def _check_events(events: Iterable[yaml.Event]) -> None:
    """Refuse a text that is nested too deeply, is too long or refers to its own parts, before anything is built."""
    depth = 0
    for count, event in enumerate(events):
        if isinstance(event, yaml.AliasEvent):
            raise InvalidConfig(f"line {_line_of(event)}: anchors and aliases (&, *) are not taken")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.ScalarEvent) and len(event.value) > MAX_SCALAR:
            raise InvalidConfig(f"line {_line_of(event)}: a value has at most {MAX_SCALAR} characters")
        if depth > MAX_DEPTH:
            raise InvalidConfig(f"line {_line_of(event)}: nested deeper than {MAX_DEPTH} levels")
        if count > MAX_EVENTS:
            raise InvalidConfig(f"the document has more than {MAX_EVENTS} values")


def _line_of(part: yaml.Event | yaml.Node) -> int:
    """Return the line of a part of a YAML text, from 1."""
    return part.start_mark.line + 1 if part.start_mark else 1


def _check_value(value: Any, place: str, depth: int) -> None:
    if depth < 0:
        raise InvalidConfig(f"{place}: nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        for name, inner in value.items():
            if not isinstance(name, str):
                raise InvalidConfig(f"{place or 'the document'}: the name {_shown(name)} must be a text; quote it")
            _check_text(name, place)
            _check_value(inner, f"{place}.{_shown(name)}" if place else _shown(name), depth - 1)
    elif isinstance(value, list):
        for inner in value:
            _check_value(inner, place, depth - 1)
    elif isinstance(value, str):
        _check_text(value, place)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidConfig(f"{place}: must be a finite number")
    elif isinstance(value, int):
        if abs(value) > MAX_NUMBER:
            raise InvalidConfig(f"{place}: the number is too large")
    elif value is not None:
        raise InvalidConfig(f"{place}: {type(value).__name__} is no value of a rule; quote it if it is a text")


def _check_text(text: str, place: str) -> None:
    if len(text) > MAX_SCALAR:
        raise InvalidConfig(f"{place or 'the document'}: a value has at most {MAX_SCALAR} characters")
    try:
        check_storable(text)
    except InvalidInput as error:
        raise InvalidConfig(f"{place or 'the document'}: {error.detail}") from error


def _describe_fault(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return f"the document is no YAML: {str(error)[:200]}"
    problem = getattr(error, "problem", None) or getattr(error, "context", None) or "cannot be read"
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"[:500]


def _shown(value: object) -> str:
    """Return a name as an error shows it: short, and without control characters."""
    return str(value)[:60] if isinstance(value, str) and str(value)[:60].isprintable() else repr(value)[:60]
