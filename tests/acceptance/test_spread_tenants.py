"""The core of the suite with tenants that are spread over three clusters."""

import os
import subprocess
import sys

import pytest

from tests.acceptance.processes import REPOSITORY

pytestmark = [pytest.mark.acceptance, pytest.mark.long]
CORE = (
    "tests/api/agent_state",
    "tests/api/jobs",
    "tests/api/memory/test_turns.py",
    "tests/api/memory/test_writes.py",
    "tests/api/recall/test_delta.py",
    "tests/api/recall/test_query.py",
    "tests/api/test_access_agents.py",
    "tests/api/test_access_tenants.py",
    "tests/clusters/test_spread_suite.py",
)
"""The tests of isolation, writing, turns, recall, agents' states and jobs, whose tenants get the clusters in turn."""


@pytest.mark.time_limit(1000)
def test_the_core_of_the_suite_passes() -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MNEMA_TEST_"))}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "not long", *CORE]
    env |= {"MNEMA_TEST_CLUSTERS": "1"}
    done = subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
