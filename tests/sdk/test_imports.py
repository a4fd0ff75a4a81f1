"""The package imports what a program uses, and nothing before."""

import json
import subprocess
import sys

import mnema_client

MODELS = ("pydantic", "httpx", "mnema_wire", "mnema_client.client")
LOADED = "import json, sys; before = set(sys.modules); {}; print(json.dumps(sorted(set(sys.modules) - before)))"


def loaded_by(program: str) -> set[str]:
    """Return the modules that a program imports."""
    done = subprocess.run([sys.executable, "-c", LOADED.format(program)], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_the_package_and_its_errors_load_no_model_and_no_http_library() -> None:
    loaded = loaded_by("from mnema_client import MnemaError")
    assert "mnema_client.errors" in loaded
    assert not loaded.intersection(MODELS)


def test_the_transport_loads_no_model() -> None:
    loaded = loaded_by("import mnema_client.transport")
    assert "httpx" in loaded
    assert not loaded.intersection(("pydantic", "mnema_client.client"))


def test_every_public_name_can_be_imported_and_is_listed() -> None:
    for name in mnema_client.__all__:
        assert getattr(mnema_client, name).__name__ == name
    assert set(mnema_client.__all__) <= set(dir(mnema_client))
    assert not hasattr(mnema_client, "nosuch")
