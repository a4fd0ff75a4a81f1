"""Reading of JSON whose objects name each key once. Other readers keep the last of equal keys, in silence.

The module uses the standard library alone, because the domain of the server uses it.
"""

import json
from typing import Any, Final

MAX_SHOWN: Final = 60
"""Characters of a key that an error repeats."""


class RepeatedKey(ValueError):
    """An object of a JSON text names one key twice."""

    def __init__(self, key: str) -> None:
        self.key = key.encode("utf-8", "replace").decode()[:MAX_SHOWN]
        super().__init__(f"the key {self.key!r} is given twice in one object")


def load_json(text: str | bytes) -> Any:
    """Return the value of a JSON text. Raise RepeatedKey for equal keys in one object, else as json.loads() does."""
    return json.loads(text, object_pairs_hook=unique_object)


def check_unique_keys(text: str | bytes) -> None:
    """Raise RepeatedKey for equal keys in one object. A text that is no JSON passes: its own reader refuses it."""
    try:
        load_json(text)
    except RepeatedKey:
        raise
    except (ValueError, RecursionError):
        pass


def unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of a JSON text from its pairs. Raise RepeatedKey, with the first key that comes again."""
    built = dict(pairs)
    if len(built) < len(pairs):
        seen: set[str] = set()
        for key, _value in pairs:
            if key in seen:
                raise RepeatedKey(key)
            seen.add(key)
    return built
