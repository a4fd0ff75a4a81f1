"""The choice of turns by ids that a model or a client names."""

from collections.abc import Iterable, Sequence


def resolve_turn_ids(named: Iterable[str], known: Sequence[str], most: int) -> tuple[str, ...]:
    """Return the known turn ids that are named, in the order of their naming, each once, at most `most`.

    A partial id counts if exactly one known id begins with it. Any other name is left out.
    """
    found: dict[str, None] = {}
    exact = set(known)
    for name in named:
        if name in exact:
            found[name] = None
        elif name:
            matches = [turn_id for turn_id in known if turn_id.startswith(name)]
            if len(set(matches)) == 1:
                found[matches[0]] = None
    return tuple(found)[:most]
