"""The virtual environment of mem0 and LangGraph's store, apart from Mnema's: made once in a folder, and kept there."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from filelock import FileLock

LOCK: Final = Path(__file__).with_name("requirements.lock")
NAMED: Final = ("mem0ai", "langgraph-checkpoint-postgres", "psycopg", "onnxruntime", "tokenizers", "uvicorn")
INSTALL_S: Final = 900
_VERSIONS: Final = """import importlib.metadata, json, sys
print(json.dumps({name: importlib.metadata.version(name) for name in sys.argv[1:]}))"""


def install_peers(home: Path, say: Callable[[str], None]) -> Path:
    """Return the Python that has the packages of requirements.lock; install them in `home` unless they are there.

    Raise subprocess.SubprocessError or OSError if that fails.
    """
    home.mkdir(parents=True, exist_ok=True)
    folder = home.resolve() / hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()[:12]
    python, stamp = folder / "bin" / "python", folder / "installed"
    with FileLock(home / "install.lock"):
        if not stamp.exists():
            say(f"installing mem0 and LangGraph's store in {folder}")
            run_quietly([sys.executable, "-m", "venv", "--clear", str(folder)])
            options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
            run_quietly([str(python), "-m", "pip", "install", *options, "-r", str(LOCK)])
            stamp.touch()
    return python


def peer_versions(python: Path) -> dict[str, str]:
    """Return the versions of the packages that matter, by name."""
    done = run_quietly([str(python), "-c", _VERSIONS, *NAMED])
    versions: dict[str, str] = json.loads(done.stdout)
    return versions


def run_quietly(command: list[str], folder: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """Run a command in a folder. Raise RuntimeError with the end of its messages if it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[:4])} … failed: {done.stderr.strip()[-2000:]}")
    return done
