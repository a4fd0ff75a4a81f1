"""What every table shares: one metadata, the tenant column, UUID ids."""

from sqlalchemy import BigInteger, Column, MetaData, Text
from sqlalchemy.dialects.postgresql import UUID

metadata = MetaData()


def tenant_column() -> "Column[object]":
    """The leading column of every primary key."""
    return Column("tenant_id", UUID, primary_key=True)


def id_column(name: str = "id", *, key: bool = True) -> "Column[object]":
    """A UUID made by the application."""
    return Column(name, UUID, primary_key=key, nullable=False)


def text_column(name: str, *, key: bool = False, null: bool = False) -> "Column[object]":
    """A text column, mandatory unless said otherwise."""
    return Column(name, Text, primary_key=key, nullable=null)


def bigint_column(name: str, *, null: bool = False) -> "Column[object]":
    """A 64-bit integer column."""
    return Column(name, BigInteger, nullable=null)
