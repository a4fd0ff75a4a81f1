"""An S3 server that keeps its objects in a folder, so that it may be killed and started again.

As a program (`python -m tests.acceptance.durable_s3 PORT FOLDER`) it is the server. It knows no buckets and checks no
signature. An object is whole or absent, as in S3.
"""

import hashlib
import os
import random
import re
import socket
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote

START_S = 60
LONGEST_PAUSE_S = 0.03
"""The longest pause before an object is stored, and after it: a kill often falls into a request."""

ABSENT = b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code><Message>There is no such key.</Message></Error>"


class DurableS3:
    """The server as a process. `keys` are the paths of its objects, with the bucket."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process; return when it accepts connections."""
        command = [sys.executable, "-m", "tests.acceptance.durable_s3", str(self.port), str(self._folder)]
        self._process = subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + START_S
        while not self._accepts():
            assert self._process.poll() is None, "the S3 server ended"
            assert time.monotonic() < deadline, "the S3 server does not answer"
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill the process with SIGKILL, in the middle of its requests."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def keys(self) -> set[str]:
        """The keys of all objects that were stored."""
        return {unquote(name) for name in os.listdir(self._folder) if not name.endswith(".part")}

    def _accepts(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class _Requests(BaseHTTPRequestHandler):
    """One connection. Each object is one file, named by its quoted path."""

    protocol_version = "HTTP/1.1"
    folder = Path()

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        part = self._place().with_name(f"{random.randbytes(8).hex()}.part")
        time.sleep(random.uniform(0, LONGEST_PAUSE_S))
        part.write_bytes(content)
        part.replace(self._place())
        time.sleep(random.uniform(0, LONGEST_PAUSE_S))
        self._answer(200, b"", content)

    def do_GET(self) -> None:
        try:
            content = self._place().read_bytes()
        except FileNotFoundError:
            self._answer(404, ABSENT, ABSENT)
            return
        self._answer(200, content, content)

    def do_POST(self) -> None:
        """Delete several objects, as a body of XML names them below the bucket."""
        bucket = self.path.partition("?")[0].strip("/")
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        keys = re.findall("<Key>(.*?)</Key>", body)
        for key in keys:
            (self.folder / quote(f"{bucket}/{key}", safe="")).unlink(missing_ok=True)
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        answer = f"<?xml version='1.0'?><DeleteResult>{deleted}</DeleteResult>".encode()
        self._answer(200, answer, answer)

    def do_DELETE(self) -> None:
        self._place().unlink(missing_ok=True)
        self._answer(204, b"", b"")

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def _place(self) -> Path:
        return self.folder / quote(unquote(self.path.partition("?")[0].strip("/")), safe="")

    def _answer(self, status: int, body: bytes, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()[:32]}"')
        self.send_header("Last-Modified", self.date_time_string())
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    _Requests.folder = Path(sys.argv[2])
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _Requests).serve_forever()
