"""Parsers that misbehave as the text of the document says. A parser's process loads them instead of the real ones."""

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from app.domain.sources.document import DocumentKind
from app.providers.parsing.draft import Draft, Request, build_sections
from app.providers.parsing.plain import read_plain


def read_hostile(request: Request) -> Draft:
    """Do what the first word says; report the rest of the text or what was found."""
    text = request.content.decode()
    word, _, rest = text.partition(" ")
    return make_draft(ACTIONS.get(word, lambda _: text)(rest))


def make_draft(text: str) -> Draft:
    return Draft(text, build_sections(len(text), ()))


def hang_forever(_rest: str) -> str:
    while True:
        time.sleep(1)


def spin_forever(_rest: str) -> str:
    while True:
        pass


def allocate_forever(_rest: str) -> str:
    held = []
    while True:
        held.append(bytearray(1 << 24))


def end_by_signal(rest: str) -> str:
    signal.raise_signal(getattr(signal, rest))
    time.sleep(60)
    return "not reached"


def exit_early(rest: str) -> str:
    os._exit(int(rest))


def write_file(rest: str) -> str:
    try:
        with Path(rest).open("w") as file:
            file.write("x" * 100_000)
    except OSError as error:
        return type(error).__name__ + str(error.errno)
    return "written"


def tell_environment(_rest: str) -> str:
    return " ".join(sorted(f"{key}={value}" for key, value in os.environ.items()))


def tell_descriptors(_rest: str) -> str:
    found = []
    for number in range(256):
        with contextlib.suppress(OSError):
            os.fstat(number)
            found.append(str(number))
    return " ".join(found)


def open_many(_rest: str) -> str:
    held = []
    try:
        while len(held) < 1000:
            held.append(os.dup(0))
    except OSError:
        return f"refused after {len(held)}"
    return "opened"


def reach_out(rest: str) -> str:
    """Try to read the file and its folder, to connect, to run a program and to end the process with this id."""
    path, pid = rest.split()
    attempts: dict[str, Callable[[], object]] = {
        "read": lambda: Path(path).read_bytes(),
        "list": lambda: os.listdir(Path(path).parent),
        "environ": lambda: Path(f"/proc/{pid}/environ").read_bytes(),
        "socket": lambda: socket.socket(socket.AF_INET),
        "datagram": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "local": lambda: socket.socket(socket.AF_UNIX),
        "run": lambda: os.execv("/bin/true", ["true"]),
        "kill": lambda: os.kill(int(pid), 0),
    }
    through = []
    for name, attempt in attempts.items():
        with contextlib.suppress(OSError):
            attempt()
            through.append(name)
    return " ".join(through) or "nothing"


def fork_child(_rest: str) -> str:
    """Leave a process behind that keeps the pipe open, in the same group."""
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
        os._exit(0)
    return f"forked {pid}"


def print_much(_rest: str) -> str:
    print("x" * 1_000_000, flush=True)
    return "printed"


def write_endlessly(_rest: str) -> str:
    """Write to every pipe that may be the one for replies."""
    lengths = b"\xff\xff\xff\xff\xff\xff\xff\xff"
    for fd in range(3, 10):
        try:
            while True:
                os.write(fd, lengths * 1000)
        except OSError:
            continue
    return "not reached"


def write_nonsense(_rest: str) -> str:
    nonsense = b"\0\0\0\x02\0\0\0\x02[]ab"
    for fd in range(3, 10):
        try:
            os.write(fd, nonsense)
        except OSError:
            continue
    time.sleep(60)
    return "not reached"


def tell_pid(_rest: str) -> str:
    return f"pid {os.getpid()}"


def leave_state(rest: str) -> str:
    os.environ["LEFT_BEHIND"] = rest
    raise ValueError(rest)


def tell_state(_rest: str) -> str:
    return f"state {os.environ.get('LEFT_BEHIND')}"


def write_later(_rest: str) -> str:
    """Write a reply of another document 100 ms after this one's."""

    def write_reply() -> None:
        time.sleep(0.1)
        write_nonsense("")

    threading.Thread(target=write_reply, daemon=True).start()
    return f"pid {os.getpid()}"


def leak_memory(rest: str) -> str:
    LEAKED.append(bytearray(int(rest) << 20))
    return "leaked"


LEAKED: list[bytearray] = []
ACTIONS = {
    "chatter": write_later,
    "leak": leak_memory,
    "hang": hang_forever,
    "spin": spin_forever,
    "allocate": allocate_forever,
    "signal": end_by_signal,
    "exit": exit_early,
    "write": write_file,
    "environment": tell_environment,
    "descriptors": tell_descriptors,
    "open": open_many,
    "reach": reach_out,
    "fork": fork_child,
    "print": print_much,
    "flood": write_endlessly,
    "nonsense": write_nonsense,
    "pid": tell_pid,
    "poison": leave_state,
    "state": tell_state,
}
PARSERS = {DocumentKind.TEXT: read_hostile, DocumentKind.CODE: read_plain}
