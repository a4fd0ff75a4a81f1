"""The clock of one test's database, which the test sets: all times that PostgreSQL tells there are moved."""

import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg

from tests.factories import Clock, Machine

REPLACED = """
CREATE SCHEMA calendar;
GRANT USAGE ON SCHEMA calendar TO PUBLIC;
CREATE TABLE calendar.shift (by interval NOT NULL);
INSERT INTO calendar.shift VALUES ('0');
CREATE FUNCTION calendar.shifted() RETURNS interval LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE
    AS 'BEGIN RETURN (SELECT by FROM calendar.shift); END';
CREATE FUNCTION calendar.real_now() RETURNS timestamptz LANGUAGE internal STABLE STRICT PARALLEL SAFE AS 'now';
CREATE FUNCTION calendar.real_clock() RETURNS timestamptz LANGUAGE internal VOLATILE STRICT PARALLEL SAFE
    AS 'clock_timestamp';
CREATE OR REPLACE FUNCTION pg_catalog.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    AS 'SELECT calendar.real_now() + calendar.shifted()';
CREATE OR REPLACE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
    AS 'SELECT calendar.real_clock() + calendar.shifted()';
"""
"""Statements that replace `now` and `clock_timestamp` in one database.

The planner puts the body of such a function in place of its call, so defaults, views and functions follow, too.
"""


class DatabaseClock(Clock):
    """The guarded clock of a process over the clock of a real database. Tests set both."""

    def __init__(self, sql: asyncpg.Connection) -> None:
        """Use this superuser's connection to read and set the database's clock."""
        super().__init__()
        self._sql = sql
        self._one_at_a_time = asyncio.Lock()
        self.machine: Machine = self._machine

    @classmethod
    async def install(cls, sql: asyncpg.Connection) -> "DatabaseClock":
        """Replace the clock of the database before anybody else connects; return the clock, which is right."""
        await sql.execute("SET allow_system_table_mods = on")
        await sql.execute(REPLACED)
        return cls(sql)

    async def _read_moved(self) -> datetime:
        async with self._one_at_a_time:
            moment: datetime = await self._sql.fetchval("SELECT clock_timestamp()")
        return moment

    async def set_database(self, by: timedelta) -> None:
        """Set the database's clock wrong by this much, on top of the time that tests let pass."""
        async with self._one_at_a_time:
            # seconds: a day of an interval is 23 or 25 hours long in some zones
            seconds = (by + self.machine.passed).total_seconds()
            await self._sql.execute("UPDATE calendar.shift SET by = make_interval(secs => $1)", seconds)

    async def travel(self, moment: datetime) -> None:
        """Let time pass until this moment, or take it back: all clocks move."""
        self.machine.passed = moment - datetime.now(UTC)
        await self.set_database(timedelta())
