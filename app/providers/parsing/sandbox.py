"""The kernel's locks on a parser's process. They hold whatever takes the process over, and for root too.

- `network`: a filter of system calls (seccomp) refuses sockets, programs, and hands on other processes.
- `files`: Landlock refuses every file but Python's own libraries and the parsers.

Both exist on Linux alone, on x86-64 and ARM64. `python -m app.providers.parsing.sandbox` locks itself and prints what
it still reaches.
"""

import contextlib
import ctypes
import os
import platform
import socket
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import app


class _Machine(NamedTuple):
    """The kernel's name of an architecture, and the numbers of the system calls that are refused there."""

    audit: int
    refused: tuple[int, ...]


# socket, io_uring_setup, execve, execveat, ptrace, process_vm_readv, process_vm_writev, kill, pidfd_send_signal,
# pidfd_getfd, mount, unshare, setns, bpf
_MACHINES: Final = {
    "x86_64": _Machine(0xC000003E, (41, 425, 59, 322, 101, 310, 311, 62, 424, 438, 165, 272, 308, 321)),
    "aarch64": _Machine(0xC00000B7, (198, 425, 221, 281, 117, 270, 271, 129, 424, 438, 40, 97, 268, 280)),
}
_SECCOMP: Final = {"x86_64": 317, "aarch64": 277}
# the calls of Landlock have the same numbers on both machines
_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_FILTER_MODE: Final = 1
_ALL_THREADS: Final = 1
_NO_NEW_PRIVS: Final = 38
# the instructions of a filter, the places of what it reads, and its verdicts
_LOAD: Final = 0x20
_JUMP_EQUAL: Final = 0x15
_JUMP_AT_LEAST: Final = 0x35
_RETURN: Final = 0x06
_NUMBER_AT: Final = 0
_MACHINE_AT: Final = 4
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050001
"""Refuse with EPERM."""
_OTHER_ABI: Final = 0x40000000
"""The first number of a call by the other convention of x86-64, whose numbers differ."""
_READ_FILE: Final = 1 << 2
_LIST_FOLDER: Final = 1 << 3
_EVERY_ACCESS: Final = (1 << 13) - 1
_BENEATH: Final = 1
_SYSTEM_LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def lock_process() -> None:
    """Lock this process for good. Do what the system can; `find_reached` tells the rest."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _MACHINES:
        return
    libc = ctypes.CDLL(None)
    libc.syscall.restype = ctypes.c_long
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        _lock_files(libc, _readable_places())
        _lock_calls(libc, machine)


def _readable_places() -> Iterator[str]:
    """Yield the folders that a parser needs: Python, its libraries, and this application's code."""
    yield from {sys.prefix, sys.base_prefix, str(Path(os.__file__).parent), str(Path(app.__file__).parent)}
    yield from (path for path in sys.path if Path(path).name == "site-packages")
    yield from _SYSTEM_LIBRARIES


def _lock_files(libc: ctypes.CDLL, places: Iterable[str]) -> None:
    rules = ctypes.c_uint64(_EVERY_ACCESS)
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(rules), ctypes.sizeof(rules), 0)
    if ruleset < 0:
        return
    try:
        for place in places:
            with contextlib.suppress(OSError):
                _allow_reading(libc, ruleset, place)
        libc.syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow_reading(libc: ctypes.CDLL, ruleset: int, place: str) -> None:
    folder = os.open(place, os.O_PATH | os.O_CLOEXEC)
    try:
        access = _READ_FILE | _LIST_FOLDER if Path(place).is_dir() else _READ_FILE
        rule = ctypes.create_string_buffer(struct.pack("=Qi", access, folder))
        libc.syscall(_ADD_RULE, ruleset, _BENEATH, rule, 0)
    finally:
        os.close(folder)


def _lock_calls(libc: ctypes.CDLL, machine: str) -> None:
    audit, refused = _MACHINES[machine]
    last = len(refused)
    steps = [
        (_LOAD, 0, 0, _MACHINE_AT),
        (_JUMP_EQUAL, 0, last + 3, audit),  # calls of another architecture have other numbers: refused
        (_LOAD, 0, 0, _NUMBER_AT),
        (_JUMP_AT_LEAST, last + 1, 0, _OTHER_ABI),
        *((_JUMP_EQUAL, last - at, 0, number) for at, number in enumerate(refused)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    program = _Program(len(steps), code)
    libc.syscall(_SECCOMP[machine], _FILTER_MODE, _ALL_THREADS, ctypes.byref(program))


def find_reached() -> list[str]:
    """Return what this process reaches: `network`, `files`."""
    reached = []
    with contextlib.suppress(OSError):
        socket.socket().close()
        reached.append("network")
    with contextlib.suppress(OSError):
        Path("/etc/passwd").read_bytes()
        reached.append("files")
    return reached


if __name__ == "__main__":
    lock_process()
    sys.stdout.write(" ".join(find_reached()) + "\n")
