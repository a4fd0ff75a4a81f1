"""A local S3 server, as a process of its own on loopback."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest

from app.embedded.postgres import free_port
from app.providers.blobs import BlobStoreSettings

START_S = 180
ACCESS_KEY, SECRET_KEY = "AKIATESTS", "a-secret-of-the-tests-that-must-not-leak"
SERVE = "import sys; from moto.server import main; main(sys.argv[1:])"


class S3Server:
    """A server with buckets in memory."""

    def __init__(self, folder: Path) -> None:
        """Start the server; return when it answers."""
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        with (folder / "s3.log").open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", SERVE, "-H", "127.0.0.1", "-p", str(self.port)], stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_S
        while not self._answers():
            assert self._process.poll() is None, (folder / "s3.log").read_text()
            assert time.monotonic() < deadline, "the S3 server does not answer"
            time.sleep(0.05)

    def make_bucket(self, name: str) -> None:
        """Create an empty bucket."""
        httpx.put(f"{self.url}/{name}", timeout=10).raise_for_status()

    def list_keys(self, bucket: str) -> Sequence[str]:
        """Return the keys of all objects, at most 1,000."""
        listing = httpx.get(f"{self.url}/{bucket}?list-type=2", timeout=10).raise_for_status().text
        return [part.split("</Key>")[0] for part in listing.split("<Key>")[1:]]

    def settings(self, bucket: str) -> BlobStoreSettings:
        """Return settings of a store in a bucket of this server."""
        keys = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY}
        return BlobStoreSettings(kind="s3", bucket=bucket, prefix="mnema/tests", endpoint_url=self.url, **keys)

    def close(self) -> None:
        """Stop the server for good."""
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/moto-api/", timeout=2).status_code < 500
        except httpx.HTTPError:
            return False


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Run a local S3 server, once for each process."""
    server = S3Server(tmp_path_factory.mktemp("s3"))
    yield server
    server.close()
