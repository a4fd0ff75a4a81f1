"""The start of the database's epoch. Each new connection asks for it before it writes anything."""

import asyncpg

BEGIN_EPOCH = "SELECT begin_epoch()"
"""Begin the epoch of this database, if the last one is another database's (`migrations/sql/0001/epochs.sql`)."""

NO_EPOCHS = (
    asyncpg.UndefinedFunctionError,
    asyncpg.UndefinedTableError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.ReadOnlySQLTransactionError,
)
"""Errors of a database whose schema is missing or another one, of a wrong role, and of one that takes no writes."""
