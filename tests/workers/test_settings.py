"""The broker settings of the application that `celery -A workers.app` starts."""

import json
import subprocess
import sys

import pytest

from app.bootstrap.adapters import build_celery_app
from app.config.settings import Settings

TOLD = """
import json
from workers.app import app
app.loader.import_default_modules()
unknown = [entry["task"] for entry in app.conf.beat_schedule.values() if entry["task"] not in app.tasks]
print(json.dumps({name: getattr(app.conf, name) for name in %r} | {"unknown": unknown}))
"""
DELIVERY = {
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    "task_acks_on_failure_or_timeout": True,
    "worker_prefetch_multiplier": 1,
    "task_soft_time_limit": 90.0,
    "task_time_limit": 120.0,
    "task_default_queue": "slow",
}


@pytest.mark.long
def test_the_workers_take_late_and_give_back_what_they_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "REDIS_URL": "redis://127.0.0.1:6379/3",
        "JOB_SOFT_LIMIT_S": "90",
        "WORKER_QUEUE": "slow",
    }.items():
        monkeypatch.setenv(f"MNEMA_{name}", value)
    names = [*DELIVERY, "broker_transport_options", "broker_url"]
    done = subprocess.run(
        [sys.executable, "-c", TOLD % names], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {name: told[name] for name in DELIVERY} == DELIVERY
    assert told["unknown"] == [], "a worker knows every task of beat"
    assert told["broker_url"] == "redis://127.0.0.1:6379/3"
    assert told["task_time_limit"] < told["broker_transport_options"]["visibility_timeout"] < 3600


@pytest.mark.parametrize("limit", [1.0, 600.0, 7200.0])
def test_a_message_is_not_delivered_again_while_its_task_may_run(limit: float) -> None:
    """The visibility timeout exceeds the longest task, whether that is longer or shorter than an hour."""
    conf = build_celery_app(Settings(redis_url="redis://127.0.0.1:6379/0", job_soft_limit_s=limit)).conf
    assert conf.task_soft_time_limit == limit
    assert limit < conf.task_time_limit < conf.broker_transport_options["visibility_timeout"] <= limit + 120
