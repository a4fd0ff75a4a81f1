"""A newcomer's first minute, in a clone of its own: the programs of the pages recall what they have told."""

import shutil
import tempfile
from pathlib import Path

import pytest

from bench.first_minute import measure_first_minute

NEEDED = ("git", "make", "curl", "node", "npm")
pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.long,
    pytest.mark.xdist_group("embedded"),
    pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason=f"needs {', '.join(NEEDED)}"),
]


def test_each_program_of_the_pages_recalls_its_sentence() -> None:
    folder = Path(tempfile.mkdtemp(prefix="mnema-first-"))
    folder.chmod(0o755)  # PostgreSQL runs under an account of its own if this is root
    try:
        found = measure_first_minute(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert "[knowledge] Ana drinks her tea without sugar." in found.printed["Python"]
    written, answered = found.printed["curl"].splitlines()
    assert '"action":"created"' in written
    assert '"text":"[knowledge] Ben takes the early train. ' in answered
    assert "[knowledge] Noor deploys to staging every Thursday." in found.printed["TypeScript"]
    assert [line.split()[0] for line in found.describe().splitlines()] == ["make", "Python", "curl", "TypeScript"]
