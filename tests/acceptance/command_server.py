"""`mnema` as processes that need no imports of their own: each is a fork of one that has made them.

To import the command takes most of the time of a short run. Every fork has its own environment, arguments, working
directory and output, and ends as a program does: from outside it differs from a started one in its parent only.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from tempfile import TemporaryFile
from typing import IO

_lock = threading.Lock()
_started: list[tuple[subprocess.Popen[bytes], socket.socket]] = []


def run(args: Sequence[str], env: Mapping[str, str], cwd: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run `mnema` to its end with nothing on stdin. Raises TimeoutExpired, as subprocess.run does."""
    with TemporaryFile() as out, TemporaryFile() as err:
        mine, theirs = socket.socketpair()
        with mine:
            with theirs:
                request = json.dumps({"args": list(args), "env": dict(env), "cwd": cwd}, ensure_ascii=True).encode()
                with _lock:
                    socket.send_fds(_server(), [b"x"], [out.fileno(), err.fileno(), theirs.fileno()])
            mine.sendall(request)
            mine.shutdown(socket.SHUT_WR)
            mine.settimeout(timeout)
            answer = b""
            try:
                while more := mine.recv(1024):
                    answer += more
            except TimeoutError as error:
                os.kill(int(answer.split()[0]), signal.SIGKILL)
                raise subprocess.TimeoutExpired(["mnema", *args], timeout) from error
        code = os.waitstatus_to_exitcode(int(answer.split()[1]))
        return subprocess.CompletedProcess(["mnema", *args], code, _text(out), _text(err))


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n")


def _server() -> socket.socket:
    """The connection to this process's server; starts it at the first call."""
    if not _started:
        mine, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", __name__, str(theirs.fileno())]
            process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        _started.append((process, mine))
        atexit.register(_stop)
    return _started[0][1]


def _stop() -> None:
    process, connection = _started.pop()
    connection.close()
    process.wait()


def _serve(connection: socket.socket) -> None:
    """Fork for each request; comes back in the process that is to be the command, and at the end of all requests."""
    while True:
        with suppress(ChildProcessError):  # there is none
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        message, descriptors, _flags, _address = socket.recv_fds(connection, 1, 3)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            connection.close()
            break
        for descriptor in descriptors:
            os.close(descriptor)
    out, err, answer = descriptors
    with socket.socket(fileno=answer) as asked:
        request = json.loads(b"".join(iter(lambda: asked.recv(1 << 16), b"")))
        if child := os.fork():
            asked.sendall(f"{child}\n".encode())
            _, status = os.waitpid(child, 0)
            with suppress(OSError):  # nobody waits any more
                asked.sendall(str(status).encode())
            os._exit(0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(out)
    os.close(err)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.argv = ["mnema", *request["args"]]


if __name__ == "__main__":
    from app.cli.main import COMMANDS, main

    for command in COMMANDS:
        command.load()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    main()
