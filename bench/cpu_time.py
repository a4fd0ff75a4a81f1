"""CPU seconds of processes, from /proc: other jobs on the machine change what a clock says, but hardly these."""

import contextlib
import math
import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _USER, _SYSTEM = 1, 11, 12
_CHILDREN = (13, 14)


def process_seconds(pid: int) -> float | None:
    """What this process has used; None where there is no /proc."""
    found = _stat_fields(pid)
    return None if found is None else (found[_USER] + found[_SYSTEM]) / _TICKS


def thread_seconds(pid: int) -> float:
    """What a process of one thread has used, to the nanosecond; not a number where the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="utf-8").split()[0]) / 1e9
    except OSError:
        return math.nan


def family_seconds(pid: int) -> float | None:
    """What this process and its children have used, also those that have ended; None where there is no /proc."""
    while (parent := _stat_fields(pid)) is not None:
        ticks = sum(parent[place] for place in (_USER, _SYSTEM, *_CHILDREN))
        for folder in Path("/proc").glob("[0-9]*"):
            child = _stat_fields(int(folder.name))
            if child is not None and child[_PARENT] == pid:
                ticks += child[_USER] + child[_SYSTEM]
        again = _stat_fields(pid)
        if again is not None and all(again[place] == parent[place] for place in _CHILDREN):
            return ticks / _TICKS  # else a child ended meanwhile, and was counted twice or not at all
    return None


def milliseconds_each(before: float | None, after: float | None, pieces: int) -> float | None:
    """Milliseconds a piece between two readings."""
    return None if before is None or after is None else round((after - before) * 1000 / max(1, pieces), 3)


def _stat_fields(pid: int) -> list[int] | None:
    """The numbers behind the program's name, which may hold anything."""
    with contextlib.suppress(OSError, ValueError):
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = text.rpartition(")")[2].split()
        return [0, *(int(field) for field in fields[1:15])]
    return None
