"""The place of a tenant by the API, and the moves that its administrators ask for."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import asyncpg
import httpx
import pytest
import yaml

from app.bootstrap import Application, Doubles
from app.bootstrap.clusters import build_finish_moves, drain_cluster
from app.domain.clusters.move import MoveStep, OwedErasures
from app.domain.errors import WrongState
from app.domain.outages import DirectoryElsewhere
from app.domain.principal import Principal
from app.ports import Embedder
from app.storage.clusters.move_session import open_sessions
from app.storage.clusters.moves import MoveRows, end_residence
from app.storage.identity import new_id
from app.usecases.clusters.finish import FinishMoves
from app.usecases.clusters.move import MoveTenants
from tests.background import background, until
from tests.clusters.callers import caller_in
from tests.clusters.moving import find_homes, find_left_overs, read_clusters, run_to_copy
from tests.clusters.servers import ClusterServers, write_bounded
from tests.conftest import SECRET_KEY
from tests.factories import Caller, Clock, body, replica
from tests.own_postgres import connected
from tests.redis_server import RedisServer

PER_DAY = 2
Served = tuple[str, Application]


@pytest.fixture(scope="module")
async def served(two_clusters: ClusterServers, local_model: Embedder) -> AsyncIterator[Served]:
    """Run a server whose tenants may ask for moves."""
    settings = two_clusters.settings(tenant_moves_per_day=PER_DAY)
    async with replica(settings, Doubles(embedder=local_model, clock=Clock())) as made:
        yield made


@pytest.fixture
async def mover(two_clusters: ClusterServers, served: Served) -> FinishMoves:
    """Return a worker's part that can move tenants, and let the directory know of it."""
    finish = build_finish_moves(two_clusters.settings(), served[1].parts.database)
    assert finish is not None
    await finish.finish_one()
    return finish


@pytest.fixture
async def caller(served: Served) -> Caller:
    return await caller_in(served[1], "first")


async def place_of(client: httpx.AsyncClient) -> dict[str, object]:
    answer = await client.get("/tenant/place")
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()
    return found


def code_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


async def begin_operators_move(servers: ClusterServers, tenant: UUID, step: MoveStep = MoveStep.prepare) -> None:
    """Store a move that the operator's command began, at a step."""
    async with open_sessions(read_clusters(servers.file)["first"]) as [directory]:
        rows = MoveRows(directory, tenant)
        move = await rows.begin_move("first", "second", {"leave_region": False})
        await rows.advance(move, step)


async def test_a_request_waits_and_is_withdrawn(served: Served, mover: FinishMoves, caller: Caller) -> None:
    async with caller.client(served[0]) as client:
        before = await place_of(client)
        assert (before["cluster"], before["region"], before["bound_to"]) == ("first", "eu", None)
        assert (before["copies"], before["move"], before["problem"]) == ([], None, None)
        assert before["targets"] == [{"cluster": "second", "region": "us"}]
        asked = await client.post("/tenant/moves", json={"cluster": "second"})
        assert asked.status_code == 202, asked.text
        assert (asked.json()["state"], asked.json()["step"]) == ("waiting", "requested")
        again = await client.post("/tenant/moves", json={"cluster": "second"})
        assert again.json() == asked.json()
        assert (await place_of(client))["problem"] == {
            "code": "move_refused",
            "detail": "the tenant is moving to second",
        }
        assert served[1].parts.database.homes is not None
        assert await served[1].parts.database.homes.list_stopped_moves() == []  # no fault of the installation
        ended = await client.delete("/tenant/moves/current")
        assert ended.status_code == 202, ended.text
        assert (ended.json()["state"], ended.json()["reason"]) == ("undone", "it was aborted")
        assert code_of(await client.delete("/tenant/moves/current")) == (404, "not_moving")


async def test_a_tenant_moves_so_often_a_day(
    two_clusters: ClusterServers, served: Served, mover: FinishMoves, caller: Caller
) -> None:
    async with caller.client(served[0]) as client:
        for _ in range(PER_DAY):
            assert (await client.post("/tenant/moves", json={"cluster": "second"})).status_code == 202
            async with connected(two_clusters.superusers["first"]) as sql:  # as if a worker had undone it
                ended = "UPDATE moves SET step = 'undone', ended_at = now() WHERE tenant_id = $1 AND ended_at IS NULL"
                await sql.execute(ended, caller.scope.tenant_id)
        refused = await client.post("/tenant/moves", json={"cluster": "second"})
        assert code_of(refused) == (429, "too_many_moves")
        assert 0 < int(refused.headers["Retry-After"]) <= 86_400


async def test_a_request_without_a_mover_is_refused(
    two_clusters: ClusterServers, served: Served, caller: Caller
) -> None:
    async with connected(two_clusters.superusers["first"]) as sql, caller.client(served[0]) as client:
        await sql.execute("UPDATE cluster SET mover_seen_at = now() - interval '1 hour'")
        assert code_of(await client.post("/tenant/moves", json={"cluster": "second"})) == (503, "no_mover")
        found = await place_of(client)
        assert isinstance(found["problem"], dict)
        assert found["problem"]["code"] == "no_mover"
        assert found["move"] is None


async def test_requests_begin_one_after_the_other(
    two_clusters: ClusterServers, served: Served, mover: FinishMoves, caller: Caller
) -> None:
    homes, other = served[1].parts.database.homes, await caller_in(served[1], "first")
    assert homes is not None
    for asking in (caller, other):
        async with asking.client(served[0]) as client:
            assert (await client.post("/tenant/moves", json={"cluster": "second"})).status_code == 202
    tenants = {caller.scope.tenant_id, other.scope.tenant_id}
    assert {stopped.tenant_id for stopped in await homes.list_stopped_moves(requests=True)} == tenants
    async with open_sessions(read_clusters(two_clusters.file)["first"]) as [directory]:
        await MoveRows(directory, caller.scope.tenant_id).take_lock()
        assert await homes.list_stopped_moves(requests=True) == []
    for asking in (caller, other):
        async with asking.client(served[0]) as client:
            assert (await client.delete("/tenant/moves/current")).status_code == 202


@pytest.mark.parametrize(
    ("cluster", "told"), [("nowhere", "no cluster 'nowhere'"), ("first", "is at home in first already")]
)
async def test_a_move_to_nowhere_is_refused(
    served: Served, mover: FinishMoves, caller: Caller, cluster: str, told: str
) -> None:
    async with caller.client(served[0]) as client:
        refused = await client.post("/tenant/moves", json={"cluster": cluster})
        assert code_of(refused) == (409, "move_refused")
        assert told in refused.json()["detail"]


async def test_a_drained_cluster_and_another_region_are_refused(
    two_clusters: ClusterServers, served: Served, mover: FinishMoves
) -> None:
    url, app = served
    bound = await app.tenancy.tenants.create_tenant("bound to eu", "first", "eu")
    key, plain = await app.tenancy.tenants.create_key(bound.id, "test", ["admin"])
    async with Caller(plain, Principal(bound.id, key_id=key.id)).client(url) as client:
        found = await place_of(client)
        assert (found["bound_to"], found["targets"]) == ("eu", [])
        refused = await client.post("/tenant/moves", json={"cluster": "second"})
        assert code_of(refused) == (409, "move_refused")
        assert "bound to the region eu" in refused.json()["detail"]
    free = await caller_in(app, "first")
    await drain_cluster(two_clusters.settings(), "second", draining=True)
    try:
        async with free.client(url) as client:
            refused = await client.post("/tenant/moves", json={"cluster": "second"})
            assert "second takes no tenants" in refused.json()["detail"]
            assert (await place_of(client))["targets"] == []
    finally:
        await drain_cluster(two_clusters.settings(), "second", draining=False)


async def test_a_worker_refuses_what_a_server_did_not_check(
    two_clusters: ClusterServers, served: Served, mover: FinishMoves
) -> None:
    url, app = served
    bound = await app.tenancy.tenants.create_tenant("bound to eu as well", "first", "eu")
    key, plain = await app.tenancy.tenants.create_key(bound.id, "test", ["admin"])
    principal = Principal(bound.id, key_id=key.id)
    async with app.parts.database.uow.directory.write(principal) as tx:
        await tx.fetchrow("SELECT outcome FROM request_move($1, $2, 'second', 5)", bound.id, new_id())
    ended = await mover.finish_one()
    assert ended is not None
    assert ended.step is MoveStep.undone
    async with Caller(plain, principal).client(url) as client:
        move = (await place_of(client))["move"]
        assert isinstance(move, dict)
        assert move["state"] == "undone"
        assert "bound to the region eu" in move["reason"]
    assert await find_homes(two_clusters, bound.id) == ["first"]


async def test_an_export_says_where_it_was(served: Served) -> None:
    url, app = served
    first, second = await caller_in(app, "first"), await caller_in(app, "second")
    async with first.client(url) as source, second.client(url) as target:
        assert (await source.post("/memory", json=body())).status_code == 201
        exported = (await source.get("/users/maya/export")).content
        user = json.loads(exported.splitlines()[0])
        assert (user["kind"], user["cluster"], user["region"]) == ("user", "first", "eu")
        types = {"Content-Type": "application/x-ndjson"}
        imported = await target.post("/import", params={"user_id": "maya"}, content=exported, headers=types)
        assert "refused" not in {json.loads(line).get("outcome") for line in imported.content.splitlines()}
        again = json.loads((await target.get("/users/maya/export")).content.splitlines()[0])
        assert (again["cluster"], again["region"]) == ("second", "us")


async def test_a_copy_that_owes_an_erasure_is_deleted(
    two_clusters: ClusterServers, served: Served, mover: FinishMoves, caller: Caller
) -> None:
    url, app = served
    tenant = caller.scope.tenant_id
    homes = app.parts.database.homes
    assert homes is not None
    async with connected(two_clusters.superusers["first"]) as first, caller.client(url) as client:
        assert (await client.post("/memory", json=body())).status_code == 201
        # as after a move to "second" and back: the copy there is a copy of the tenant's row alone
        await begin_operators_move(two_clusters, tenant, MoveStep.done)
        await first.execute("UPDATE moves SET source = 'second', target = 'first' WHERE tenant_id = $1", tenant)
        async with connected(two_clusters.superusers["second"]) as second:
            await second.execute("INSERT INTO residences (tenant_id, state, epoch) VALUES ($1, 'away', 1)", tenant)
        erased = await client.post("/users/maya/erase")
        assert erased.headers["Mnema-Unreached"] == "second"
        assert await homes.list_owed() == []  # requests from before the move may still read the copy
        await mover.finish_one()
        assert (await place_of(client))["copies"] == ["second"]
        await first.execute("UPDATE moves SET ended_at = now() - interval '3 minutes' WHERE tenant_id = $1", tenant)
        assert await homes.list_owed() == [OwedErasures(tenant, "second", 1)]
        told = (await app.operations.readiness.run_checks())["moves"]
        assert f"second has a copy of the tenant {tenant} that owes 1 erasures" in told
        await mover.finish_one()
        assert await homes.list_owed() == []
        assert (await place_of(client))["copies"] == []
        assert (await client.get("/memory", params={"user_id": "maya"})).status_code == 200


async def test_an_operators_move_is_the_operators(two_clusters: ClusterServers, served: Served, caller: Caller) -> None:
    tenant = caller.scope.tenant_id
    await begin_operators_move(two_clusters, tenant)
    async with caller.client(served[0]) as client:
        refused = await client.delete("/tenant/moves/current")
        assert code_of(refused) == (409, "move_refused")
        assert "the operator moves the tenant" in refused.json()["detail"]
        move = (await place_of(client))["move"]
        assert isinstance(move, dict)
        assert (move["requested"], move["aborted"]) == (False, False)
    await MoveTenants(read_clusters(two_clusters.file), "first").abort_move(tenant)


async def test_moves_are_not_offered_by_default(
    two_clusters: ClusterServers, local_model: Embedder, caller: Caller
) -> None:
    doubles = Doubles(embedder=local_model, clock=Clock())
    async with replica(two_clusters.settings(), doubles) as (url, _), caller.client(url) as client:
        assert code_of(await client.post("/tenant/moves", json={"cluster": "second"})) == (403, "moves_not_offered")
        found = await place_of(client)
        assert found["targets"] == []
        assert found["problem"] == {"code": "moves_not_offered", "detail": found["problem"]["detail"]}  # type: ignore[index]


async def test_a_nearly_full_cluster_is_named(
    two_clusters: ClusterServers, local_model: Embedder, tmp_path: Path
) -> None:
    settings = two_clusters.settings().model_copy(update={"clusters": write_bounded(two_clusters, tmp_path)})
    async with replica(settings, Doubles(embedder=local_model, clock=Clock())) as (_, app):
        told = (await app.operations.readiness.run_checks())["clusters"]
    assert re.fullmatch(r"second: its database takes \d+\.\d MB of 10\.0 MB, its max_bytes: move .*", told)


@pytest.mark.long
async def test_a_file_that_does_not_fit_its_databases_is_named(
    two_clusters: ClusterServers, local_model: Embedder, tmp_path: Path
) -> None:
    right = yaml.safe_load(two_clusters.file.read_text())
    swapped = tmp_path / "swapped.yaml"
    swapped.write_text(yaml.safe_dump({"second": right["second"], "first": right["first"]}, sort_keys=False))
    renamed = tmp_path / "renamed.yaml"
    renamed.write_text(yaml.safe_dump({"first": right["first"], "other": right["second"]}, sort_keys=False))
    told = []
    for file in (swapped, renamed):
        settings = two_clusters.settings().model_copy(update={"clusters": file})
        async with replica(settings, Doubles(embedder=local_model, clock=Clock())) as (_, app):
            told.append((await app.operations.readiness.run_checks())["clusters"])
            if file is swapped:
                with pytest.raises(DirectoryElsewhere):
                    await app.tenancy.tenants.create_tenant("nowhere")
    assert "second: it does not keep the directory" in told[0]
    assert "other: its database is the cluster second" in told[1]


@pytest.mark.parametrize(
    ("step", "source", "target", "leave_region"),
    [
        ("prepare", "first", "second", "false"),
        ("requested", "second", "first", "false"),
        ("requested", "first", "first", "false"),
        ("requested", "first", "second", "true"),
    ],
)
async def test_the_database_refuses_a_servers_own_moves(
    served: Served, mover: FinishMoves, caller: Caller, step: str, source: str, target: str, leave_region: str
) -> None:
    details = {"requested": True, "leave_region": leave_region == "true"}
    insert = "INSERT INTO moves (tenant_id, id, source, target, step, details) VALUES ($1, $2, $3, $4, $5, $6)"
    async with served[1].parts.database.uow.directory.write(caller.scope) as tx:
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
            await tx.execute(insert, caller.scope.tenant_id, new_id(), source, target, step, details)


async def test_a_server_ends_no_move_of_the_operator(
    two_clusters: ClusterServers, served: Served, caller: Caller
) -> None:
    tenant = caller.scope.tenant_id
    await begin_operators_move(two_clusters, tenant)
    async with served[1].parts.database.uow.directory.write(caller.scope) as tx:
        assert await tx.fetch("UPDATE moves SET aborted_at = now() RETURNING id") == []
        assert await tx.fetch("DELETE FROM moves RETURNING id") == []
    async with served[1].parts.database.uow.directory.write(caller.scope) as tx:
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied"):
            await tx.execute("UPDATE moves SET step = 'flip'")
    await MoveTenants(read_clusters(two_clusters.file), "first").abort_move(tenant)


async def test_an_aborted_move_never_flips(two_clusters: ClusterServers, served: Served, caller: Caller) -> None:
    tenant = caller.scope.tenant_id
    async with open_sessions(read_clusters(two_clusters.file)["first"]) as [source]:
        rows = MoveRows(source, tenant)
        move = await rows.begin_move("first", "second", {"leave_region": False})
        ended = await end_residence(source, tenant)
        assert ended is not None
        details = {"epoch": ended.epoch, "database_epoch": str(ended.database_epoch), "up_to": ended.up_to}
        move = await rows.advance(move, MoveStep.compare, details)
        assert await rows.ask_to_abort() is not None
        move = await rows.advance(move, MoveStep.flip, {"why": "another reason"})
        assert (move.step, move.details["why"]) == (MoveStep.undo, "it was aborted")
        assert await find_homes(two_clusters, tenant) == []
    mover = MoveTenants(read_clusters(two_clusters.file), "first")
    assert (await mover.abort_move(tenant)).step is MoveStep.undone
    assert await find_homes(two_clusters, tenant) == ["first"]
    await begin_operators_move(two_clusters, tenant, MoveStep.flip)
    async with open_sessions(read_clusters(two_clusters.file)["first"]) as [source]:
        assert await MoveRows(source, tenant).ask_to_abort() is None
    with pytest.raises(WrongState, match="is at home in second already"):
        await mover.abort_move(tenant)
    async with connected(two_clusters.superusers["first"]) as sql:
        await sql.execute("DELETE FROM moves WHERE tenant_id = $1", tenant)


async def test_an_undone_move_to_a_former_home_leaves_no_copy_there(
    two_clusters: ClusterServers, served: Served, caller: Caller
) -> None:
    tenant = caller.scope.tenant_id
    async with connected(two_clusters.superusers["second"]) as sql:
        placed = "SELECT count(*) FROM placements WHERE tenant_id = $1"
        await until(lambda: sql.fetchval(placed, tenant), "the directory's copy in second")
        await sql.execute("INSERT INTO residences (tenant_id, state, epoch) VALUES ($1, 'away', 1)", tenant)
    async with caller.client(served[0]) as client:
        assert (await place_of(client))["copies"] == ["second"]
        await begin_operators_move(two_clusters, tenant)
        await MoveTenants(read_clusters(two_clusters.file), "first").abort_move(tenant)
        assert (await place_of(client))["copies"] == []


@pytest.mark.long
async def test_a_requested_move_is_carried_out(
    two_clusters: ClusterServers, served: Served, mover: FinishMoves, caller: Caller
) -> None:
    async with caller.client(served[0]) as client:
        assert (await client.post("/memory", json=body())).status_code == 201
        await client.post("/tenant/moves", json={"cluster": "second"})
        moving = asyncio.create_task(mover.finish_one())
        seen = set()
        while not moving.done():
            move = (await place_of(client))["move"]
            assert isinstance(move, dict)
            seen.add((move["state"], move["tables"] > 0))
            await asyncio.sleep(0.05)
        assert ("running", True) in seen
        found = await place_of(client)
        assert (found["cluster"], found["copies"]) == ("second", ["first"])
        assert isinstance(found["move"], dict)
        assert found["move"]["state"] == "done"
        assert found["move"]["copied"] < found["move"]["tables"]  # the last count before all were there
    assert await find_homes(two_clusters, caller.scope.tenant_id) == ["second"]
    assert await find_left_overs(two_clusters) == []
    async with connected(two_clusters.superusers["first"]) as former, caller.client(served[0]) as client:
        count = "SELECT count(*) FROM memories WHERE tenant_id = $1"
        assert await former.fetchval(count, caller.scope.tenant_id) == 1
        assert (await client.post("/users/maya/erase")).headers["Mnema-Unreached"] == "first"
        await former.execute("UPDATE moves SET ended_at = now() - interval '3 minutes'")
        await mover.finish_one()
        assert await former.fetchval(count, caller.scope.tenant_id) == 0


@pytest.mark.long
async def test_a_worker_carries_out_a_request(
    two_clusters: ClusterServers, served: Served, caller: Caller, redis: RedisServer, tmp_path: Path
) -> None:
    env = {"MNEMA_CLUSTERS": two_clusters.file, "MNEMA_SECRET_KEY": SECRET_KEY}
    async with connected(two_clusters.superusers["first"]) as sql:
        await sql.execute("UPDATE cluster SET mover_seen_at = NULL")
    async with caller.client(served[0]) as client:
        with background(tmp_path, "", redis.url, **env) as workers:
            workers.worker()
            workers.beat()

            async def is_offered() -> bool:
                return (await place_of(client))["problem"] is None

            async def has_moved() -> bool:
                return (await place_of(client))["cluster"] == "second"

            await until(is_offered, "a worker that can move tenants")
            asked = await client.post("/tenant/moves", json={"cluster": "second"})
            assert asked.status_code == 202, asked.text
            await until(has_moved, "the end of the move")
        assert await find_homes(two_clusters, caller.scope.tenant_id) == ["second"]


@pytest.mark.long
async def test_a_move_that_another_process_runs_is_aborted(two_clusters: ClusterServers, caller: Caller) -> None:
    tenant = caller.scope.tenant_id
    running = await run_to_copy(two_clusters, tenant)
    ended = await MoveTenants(read_clusters(two_clusters.file), "first").abort_move(tenant)
    assert ended.step is MoveStep.undone
    with pytest.raises(WrongState, match="it was aborted"):
        await running
    assert await find_homes(two_clusters, tenant) == ["first"]
    assert await find_left_overs(two_clusters) == []


@pytest.mark.long
async def test_a_tenant_aborts_its_move_while_it_runs(
    two_clusters: ClusterServers, served: Served, mover: FinishMoves, caller: Caller
) -> None:
    async with caller.client(served[0]) as client:
        await client.post("/tenant/moves", json={"cluster": "second"})
        running = await run_to_copy(two_clusters, caller.scope.tenant_id)
        aborted = await client.delete("/tenant/moves/current")
        assert aborted.status_code == 202, aborted.text
        assert aborted.json()["aborted"]
        with pytest.raises(WrongState, match="it was aborted"):
            await running
        move = (await place_of(client))["move"]
        assert isinstance(move, dict)
        assert (move["state"], move["reason"]) == ("undone", "it was aborted")
    assert await find_homes(two_clusters, caller.scope.tenant_id) == ["first"]
