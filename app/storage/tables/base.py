"""Building blocks of all tables: one metadata, the tenant column, UUID ids."""

from sqlalchemy import BigInteger, Column, MetaData, Text
from sqlalchemy.dialects.postgresql import UUID

metadata = MetaData()


def tenant_column() -> "Column[object]":
    """Return the leading column of every primary key."""
    return Column("tenant_id", UUID, primary_key=True)


def id_column(name: str = "id", *, key: bool = True) -> "Column[object]":
    """Return a column for a UUID that the application makes."""
    return Column(name, UUID, primary_key=key, nullable=False)


def text_column(name: str, *, key: bool = False, null: bool = False) -> "Column[object]":
    """Return a text column, not null by default."""
    return Column(name, Text, primary_key=key, nullable=null)


def bigint_column(name: str, *, null: bool = False) -> "Column[object]":
    """Return a 64-bit integer column, not null by default."""
    return Column(name, BigInteger, nullable=null)
