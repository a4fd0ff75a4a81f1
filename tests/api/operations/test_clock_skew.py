"""A server whose clock differs from the database's: it is not ready, and says why."""

import httpx
import pytest

from tests.factories import Clock


@pytest.mark.parametrize("whose", ["process", "database"])
async def test_a_server_is_not_ready_while_the_clocks_differ(http: httpx.AsyncClient, clock: Clock, whose: str) -> None:
    set_wrong = clock.set_process_wrong if whose == "process" else clock.set_database_wrong
    assert (await http.get("/ready")).json()["checks"]["clock"] == "ok"
    set_wrong(seconds=50)
    assert (await http.get("/ready")).status_code == 200
    set_wrong(days=400)
    response = await http.get("/ready")
    assert (response.status_code, response.json()["status"]) == (503, "unavailable")
    assert response.json()["checks"]["clock"].startswith("clock_skew: the database's clock is 345")  # of 34,560,000 s
    set_wrong()
    assert (await http.get("/ready")).status_code == 200


async def test_a_server_is_not_ready_after_both_clocks_leapt(http: httpx.AsyncClient, clock: Clock) -> None:
    clock.set_process_wrong(days=400)
    clock.set_database_wrong(days=400)
    response = await http.get("/ready")
    assert response.status_code == 503
    assert response.json()["checks"]["clock"].startswith("clock_skew: the clocks leapt")
