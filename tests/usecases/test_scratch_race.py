import asyncio
import re
from pathlib import Path

import pytest

from tests.factories import draft
from tests.storage.building import Gate
from tests.usecases.crowd import SeededEmbedder

SQL = Path("migrations/sql/0001_journal.sql").read_text()

def function(name):
    return re.search(rf"CREATE FUNCTION {name}\(.*?END \$\$;", SQL, re.S)[0].replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1)

@pytest.fixture
def embedder():
    return SeededEmbedder()

@pytest.mark.parametrize("fixed", [False, True])
async def test_race(app, caller, sql, fixed):
    await app.write.remember(caller.scope, draft("Maya lives in Lisbon."))
    held = function("user_pk_for").replace("BEGIN\n", "BEGIN\n PERFORM pg_advisory_xact_lock_shared(9); v_pk := user_pk_of(p_tenant, p_user);\n", 1)
    await sql.execute(held)
    if fixed:
        f = function("apply_change")
        line = "    IF p_change ? 'tombstones' THEN PERFORM refuse_erased(p_tenant, p_change->'tombstones'); END IF;\n"
        assert line in f
        f = f.replace(line, "").replace("    IF v_new.id IS NOT NULL THEN v_after", line + "    IF v_new.id IS NOT NULL THEN v_after")
        await sql.execute(f)
    await sql.execute("SELECT pg_advisory_lock(9)")
    writing = asyncio.create_task(app.write.remember(caller.scope, draft("Maya lives in Lisbon.", category="goals")))
    await Gate(sql).waiting(1)
    await asyncio.wait_for(app.erase.erase(caller.scope, "maya"), 20)
    await sql.execute("SELECT pg_advisory_unlock(9)")
    done = await writing
    print("RESULT fixed", fixed, done.action, done.reason, await sql.fetch("select text from memories"))
    assert (done.action == "skipped") == fixed
