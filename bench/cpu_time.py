"""CPU seconds of processes, from /proc. Unlike clock time, they hardly depend on other load on the machine."""

import contextlib
import math
import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PARENT, _USER, _SYSTEM = 1, 11, 12
_CHILDREN = (13, 14)


def process_seconds(pid: int) -> float | None:
    """Return the CPU seconds of a process, None without /proc."""
    found = _stat_fields(pid)
    return None if found is None else (found[_USER] + found[_SYSTEM]) / _TICKS


def thread_seconds(pid: int) -> float:
    """Return the CPU seconds of a single-threaded process, exact to the nanosecond; NaN if it is not available."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="utf-8").split()[0]) / 1e9
    except OSError:
        return math.nan


def family_seconds(pid: int) -> float | None:
    """Return the CPU seconds of a process and its children, also of those that have ended; None without /proc."""
    while (parent := _stat_fields(pid)) is not None:
        ticks = sum(parent[place] for place in (_USER, _SYSTEM, *_CHILDREN))
        ticks += sum(child[_USER] + child[_SYSTEM] for child in _children(pid).values())
        again = _stat_fields(pid)
        if again is not None and all(again[place] == parent[place] for place in _CHILDREN):
            return ticks / _TICKS  # otherwise a child ended meanwhile and was counted twice or not at all
    return None


def child_pids(pid: int) -> list[int]:
    """Return the process ids of a process's children, none without /proc."""
    return list(_children(pid))


def milliseconds_each(before: float | None, after: float | None, pieces: int) -> float | None:
    """Return the milliseconds a piece between two readings, None if a reading is None."""
    return None if before is None or after is None else round((after - before) * 1000 / max(1, pieces), 3)


def _children(pid: int) -> dict[int, list[int]]:
    found = ((int(folder.name), _stat_fields(int(folder.name))) for folder in Path("/proc").glob("[0-9]*"))
    return {child: fields for child, fields in found if fields is not None and fields[_PARENT] == pid}


def _stat_fields(pid: int) -> list[int] | None:
    """Return the numbers after the program's name in /proc/PID/stat, None without /proc. The name may be any text."""
    with contextlib.suppress(OSError, ValueError):
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        fields = text.rpartition(")")[2].split()
        return [0, *(int(field) for field in fields[1:15])]
    return None
