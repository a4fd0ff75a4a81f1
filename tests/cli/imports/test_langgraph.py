"""`mnema import --from langgraph`: LangGraph's own stores, read live into the shared server."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import PostgresStore
from mnema_cli.imports.langgraph_store import StoreChoices, match_namespace, read_store
from mnema_cli.imports.records import Bad, Choices, Write
from mnema_client.langgraph import MnemaStore

from tests.cli.imports.conftest import Stored
from tests.cli.imports.store_module import ITEMS
from tests.cli.in_process import mnema
from tests.conftest import Database

MODULE = "tests.cli.imports.store_module"


@pytest.mark.parametrize(
    ("pattern", "namespace", "found"),
    [
        (None, ("a", "b"), {}),
        ("memories/{user}", ("memories", "ana"), {"user_id": "ana"}),
        ("memories/{user}", ("memories", "ana", "x"), None),
        ("{user}/**", ("ana",), {"user_id": "ana"}),
        ("{user}/**", ("ana", "x", "y"), {"user_id": "ana"}),
        ("{category}/*/{thread}", ("tasks", "x", "t1"), {"category": "tasks", "thread_id": "t1"}),
        ("notes/{agent}", ("memories", "ana"), None),
    ],
)
def test_a_pattern_names_the_labels_of_a_namespace(
    pattern: str | None, namespace: tuple[str, ...], found: dict[str, str] | None
) -> None:
    assert match_namespace(pattern, namespace) == found


@pytest.mark.long
async def test_items_become_memories_once(env: dict[str, Any], stored: Stored) -> None:
    command = ("--from", "langgraph", "--namespace", "memories/{user}/**", "--category", "knowledge")
    done = await mnema("import", f"{MODULE}:shared", *command, **env)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == (
        f"{ITEMS - 2} memories stored from {MODULE}:shared, 0 already imported, 2 left out, 0 failed"
    )
    assert "  left out: 1 × namespaces that --namespace does not name" in done.stdout
    found = {each["text"]: each for each in await stored()}
    assert len(found) == ITEMS - 2
    assert (found["Fact 1 of ana."]["user_id"], found["Fact 1 of ana."]["category"]) == ("ana", "knowledge")
    origin = {"imported_from": "langgraph", "id": "m1", "namespace": "memories/ana"}
    assert found["Fact 1 of ana."]["metadata"] == origin | {"value": {"source": "chat"}}
    assert found["Ana likes tea."]["user_id"] == "ana"
    again = await mnema("import", f"{MODULE}:shared", *command, **env)
    assert f"nothing stored from {MODULE}:shared, {ITEMS - 2} already imported" in again.stdout


@pytest.mark.long
async def test_items_stay_items_in_mnemas_store(env: dict[str, Any], stored: Stored) -> None:
    command = ("--from", "langgraph", "--as", "items", "--namespace", "memories/{user}/**")
    done = await mnema("import", f"{MODULE}:shared", *command, **env)
    assert (done.exit_code, f"{ITEMS - 1} items stored from {MODULE}:shared, 0 already" in done.stdout) == (0, True)
    store = MnemaStore(env["MNEMA_URL"], env["MNEMA_API_KEY"])
    try:
        counts = await store.aget(("memories", "ana", "counts"), "visits")
        assert counts is not None
        assert counts.value == {"number": 3}
        assert await store.aget(("settings",), "theme") is None
        assert len(await store.asearch(("memories",), limit=1000)) == ITEMS - 1
    finally:
        await store.aclose()
    assert await stored() == []


@pytest.mark.long
async def test_every_form_of_a_store_is_opened_and_others_are_refused(env: dict[str, Any]) -> None:
    dry = ("--from", "langgraph", "--dry-run", "--user", "ana")
    for name in ("build_store", "opened"):
        done = await mnema("import", f"{MODULE}:{name}", *dry, **env)
        assert f"{ITEMS - 1} memories would be stored" in done.stdout, done.output
    for source, said in [
        (f"{MODULE}:broken", "the store fails at its namespaces: ConnectionError: gone"),
        (f"{MODULE}:ITEMS", "is a int, not a store with the method search"),
        (f"{MODULE}:absent", "cannot be loaded: AttributeError"),
        ("nowhere.to.be.found:store", "cannot be loaded: ModuleNotFoundError"),
        ("store", "'store' is neither `package.module:name` nor postgresql://"),
        ("postgres", "set MNEMA_IMPORT_DSN to the address of the database"),
        ("postgresql://u:secret@127.0.0.1/x", "put an address with a password into MNEMA_IMPORT_DSN"),
    ]:
        done = await mnema("import", source, *dry, **env, MNEMA_IMPORT_DSN="")
        assert (done.exit_code, said in done.stderr) == (1, True), done.output


class Shuffled(InMemoryStore):
    """A store whose pages overlap."""

    def search(self, *prefix: Any, offset: int = 0, **options: Any) -> Any:
        return super().search(*prefix, offset=max(0, offset - 1), **options)


@pytest.mark.parametrize("kind", [InMemoryStore, Shuffled])
def test_pages_that_overlap_are_told(kind: type[InMemoryStore], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mnema_cli.imports.langgraph_store.PAGE", 2)
    monkeypatch.setattr("mnema_cli.imports.langgraph_store.NAMESPACES", 1)
    store = kind()
    for number in range(3):
        store.put(("a",), f"m{number}", {"text": f"Fact {number}."})
        store.put(("a", "b"), f"m{number}", {"text": f"Fact {number} below."})
    found = list(read_store(store, Choices("langgraph", (), "activity", "activity", user="ana"), StoreChoices()))
    texts = [each.body["text"] for each in found if isinstance(each, Write)]
    assert len(texts) == len(set(texts))
    told = [each for each in found if isinstance(each, Bad)]
    if kind is InMemoryStore:
        assert (sorted(texts), told) == (sorted(f"Fact {n}{below}." for n in range(3) for below in ("", " below")), [])
    else:
        assert {each.place for each in told} == {"a", "a/b"}


@pytest.fixture
async def dsn(database: Database) -> AsyncIterator[str]:
    """Return the address of a PostgresStore with 104 items, in a schema of its own."""
    connection = await asyncpg.connect(database.superuser)
    await connection.execute("CREATE SCHEMA imported_store")
    address = f"{database.superuser}{'&' if '?' in database.superuser else '?'}options=-csearch_path%3Dimported_store"

    def fill() -> None:
        with PostgresStore.from_conn_string(address) as store:
            store.setup()
            store.batch([PutOp(("memories", "ana"), f"m{n}", {"data": f"Ana wrote line {n}."}) for n in range(104)])

    try:
        await asyncio.to_thread(fill)
        yield address
    finally:
        await connection.execute("DROP SCHEMA imported_store CASCADE")
        await connection.close()


@pytest.mark.long
async def test_a_postgres_store_is_read_page_by_page(env: dict[str, Any], stored: Stored, dsn: str) -> None:
    command = ("import", "postgres", "--from", "langgraph", "--namespace", "*/{user}")
    done = await mnema(*command, **env, MNEMA_IMPORT_DSN=dsn)
    assert (done.exit_code, done.stdout.splitlines()[0]) == (
        0,
        "104 memories stored from postgres, 0 already imported, 0 left out, 0 failed",
    )
    assert {(each["user_id"], each["text"]) for each in await stored()} == {
        ("ana", f"Ana wrote line {n}.") for n in range(104)
    }
    lost = await mnema(*command, **env, MNEMA_IMPORT_DSN="postgresql://nobody:hidden@127.0.0.1:1/none")
    assert (lost.exit_code, "the database cannot be used: OperationalError" in lost.stderr) == (1, True), lost.output
    assert "hidden" not in lost.output


async def test_a_text_field_is_named_by_its_path(env: dict[str, Any]) -> None:
    dry = ("--from", "langgraph", "--dry-run", "--user", "ana", "--text-field", "content.content")
    done = await mnema("import", f"{MODULE}:build_store", *dry, **env)
    assert "1 memory would be stored" in done.stdout
    assert f"left out: {ITEMS - 1} × items without a text in content.content; see --text-field" in done.stdout
