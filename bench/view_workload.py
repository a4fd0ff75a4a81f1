"""The requests of `mnema bench views`, on the conversation that `bench/view_site.py` loads."""

from typing import Final

USER: Final = "maya"
CONVERSATION: Final = "long"
SIGNALS: Final = "assistant-signals"
VIEWS: Final = ("gate", "reconciler", "downstream", "final")
KINDS: Final = frozenset((*VIEWS, SIGNALS))
ANSWER: Final = (b'{"view":"', b'{"items":[{')
"""The beginnings of right answers."""
NAMED_EVERY: Final = 4
"""One request in this many names the selected turns by beginnings of their ids."""


def view_path(kind: str, number: int) -> str:
    """Return the path of a view, or of the assistant signals, with another current turn for each number."""
    if kind == SIGNALS:
        return f"/users/{USER}/assistant-signals"
    path = f"/conversations/{CONVERSATION}/context?user_id={USER}&view={kind}&turn_id={turn_name(number)}"
    if number % NAMED_EVERY:
        return path
    return path + "".join(f"&local_memories_turn_ids={name}" for name in BEGINNINGS)


def turn_name(number: int) -> str:
    """Return the id of a turn. What stands before its second `_` is a unique beginning of it."""
    return f"turn_{number:05d}_{number * 7919 % 9973}"


BEGINNINGS: Final = tuple(turn_name(number).rpartition("_")[0] for number in range(20, 25))
