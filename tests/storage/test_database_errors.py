"""Values that PostgreSQL refuses: each is an error of the request, whichever statement meets it."""

import asyncpg

from app.domain.errors import MnemaError, ValueRefused
from app.domain.principal import Principal
from app.storage.uow import UnitOfWork

REFUSED = {
    "an integer out of range": ("SELECT $1::text::int", "2147483648"),
    "a number that is none": ("SELECT $1::text::numeric", "1e"),
    "a number too large for its type": ("SELECT $1::text::real", "1e400"),
    "a UUID that is none": ("SELECT $1::text::uuid", "x"),
    "a time out of range": ("SELECT $1::text::timestamptz", "294277-01-01"),
    "a time that is none": ("SELECT $1::text::timestamptz", "2025-02-30"),
    "an interval out of range": ("SELECT $1::text::interval", f"{9**19} years"),
    "a regular expression": ("SELECT 'a' ~ $1::text", "((("),
    "a pattern with half an escape": ("SELECT 'a' LIKE $1::text", "\\"),
    "JSON": ("SELECT $1::text::jsonb", "{"),
    "an escaped NUL in JSON": ("SELECT $1::text::jsonb", '"\\u0000"'),
    "a NUL": ("SELECT $1::text", "\x00"),
    "a list": ("SELECT $1::text::int[]", "{"),
    "a word too long for a search": ("SELECT $1::text::tsvector", "x" * 3000),
    "a text too long for a search": (
        "SELECT to_tsvector('simple', repeat(md5($1::text) || ' ', 1) || string_agg(md5(n::text), "
        "' ')) FROM generate_series(1, 40000) n",
        "x",
    ),
    "negations beyond the parser's stack": ("SELECT websearch_to_tsquery('english', $1::text)", "-" * 40 + "x"),
    "an argument that the driver cannot encode": ("SELECT $1::int", 2**31),
}


DEFECTS = ["SELECT 1 FROM nothing", "SELEC", "SELECT 1 + 'x'::bytea"]


async def error_of(uow: UnitOfWork, tenant: Principal, statement: str, *values: object) -> Exception | None:
    """Run a statement; return its error."""
    try:
        async with uow.read(tenant) as tx:
            await tx.fetchval(statement, *values)
    except (asyncpg.PostgresError, MnemaError) as error:
        return error
    return None


async def test_a_value_that_the_database_refuses_is_an_error_of_the_request(uow: UnitOfWork, a: Principal) -> None:
    errors = {kind: await error_of(uow, a, statement, value) for kind, (statement, value) in REFUSED.items()}
    assert {kind for kind, error in errors.items() if not isinstance(error, ValueRefused)} == set()
    assert {str(error) for error in errors.values()} == {ValueRefused.__doc__}, "none repeats the value"
    assert (ValueRefused.status, ValueRefused.code) == (422, "value_refused")


async def test_a_defect_of_ours_stays_one(uow: UnitOfWork, a: Principal) -> None:
    for defect in DEFECTS:
        assert isinstance(await error_of(uow, a, defect), asyncpg.PostgresError)


async def test_a_callers_words_reach_the_parser_of_searches_in_one_place(raw: asyncpg.Connection) -> None:
    bodies = await raw.fetch("""
        SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace
        AND CASE prokind WHEN 'f' THEN pg_get_functiondef(oid) END ~ '(websearch_|phrase|plain)to_tsquery'""")
    assert [row["proname"] for row in bodies] == ["parse_words"]
