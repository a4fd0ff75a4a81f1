"""The kernel's locks on a parser's process. They hold whatever takes the process over, and for root too.

- `network`: a filter of system calls (seccomp) refuses sockets, programs, and hands on other processes.
- `files`: Landlock refuses every file but Python's own libraries and the parsers.

Both exist on Linux alone, on x86-64 and ARM64. `python -m app.providers.parsing.sandbox` prints which hold here.
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
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # on both
_FILTER_MODE, _ALL_THREADS = 1, 1
_NO_NEW_PRIVS: Final = 38
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # instructions of the filter
_NUMBER_AT, _MACHINE_AT = 0, 4
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001  # refused with EPERM
_OTHER_ABI: Final = 0x40000000
"""The first number of a call by the other convention of x86-64, whose numbers differ."""
_READ: Final = 1 << 2 | 1 << 3
"""The access that reads a file or lists a folder."""
_EVERY_ACCESS: Final = (1 << 13) - 1
_BENEATH: Final = 1
_SYSTEM_LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def lock_process() -> frozenset[str]:
    """Lock this process for good, with its threads; return the names of the locks that hold."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _MACHINES:
        return frozenset()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return frozenset()
    held = {"files": _lock_files(libc, _readable_places()), "network": _lock_calls(libc, machine)}
    return frozenset(name for name, holds in held.items() if holds)


def _readable_places() -> Iterator[str]:
    """Yield the folders that a parser needs: Python, its libraries, and this application's code."""
    yield from {sys.prefix, sys.base_prefix, str(Path(os.__file__).parent), str(Path(app.__file__).parent)}
    yield from (path for path in sys.path if Path(path).name == "site-packages")
    yield from _SYSTEM_LIBRARIES


def _lock_files(libc: ctypes.CDLL, places: Iterable[str]) -> bool:
    rules = ctypes.c_uint64(_EVERY_ACCESS)
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(rules), ctypes.sizeof(rules), 0)
    if ruleset < 0:
        return False
    try:
        for place in places:
            with contextlib.suppress(OSError):
                _allow_reading(libc, ruleset, place)
        return bool(libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)


def _allow_reading(libc: ctypes.CDLL, ruleset: int, place: str) -> None:
    folder = os.open(place, os.O_PATH | os.O_CLOEXEC)
    try:
        access = _READ if Path(place).is_dir() else 1 << 2
        rule = ctypes.create_string_buffer(struct.pack("=Qi", access, folder))
        libc.syscall(_ADD_RULE, ruleset, _BENEATH, rule, 0)
    finally:
        os.close(folder)


def _lock_calls(libc: ctypes.CDLL, machine: str) -> bool:
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
    return bool(libc.syscall(_SECCOMP[machine], _FILTER_MODE, _ALL_THREADS, ctypes.byref(program)) == 0)


def try_locks() -> list[str]:
    """Lock this process and return what still gets through: `network`, `files`."""
    lock_process()
    through = []
    with contextlib.suppress(OSError):
        socket.socket().close()
        through.append("network")
    with contextlib.suppress(OSError):
        Path("/etc/passwd").read_bytes()
        through.append("files")
    return through


if __name__ == "__main__":
    sys.stdout.write(" ".join(try_locks()) + "\n")
