"""Mnema beneath LangGraph; needs `mnema[langgraph]`."""

from mnema.langgraph.migration import Migrated, MigrationError, amigrate, migrate
from mnema.langgraph.saver import MnemaSaver

__all__ = ["Migrated", "MigrationError", "MnemaSaver", "amigrate", "migrate"]
