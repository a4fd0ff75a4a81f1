"""Checkpoint saver and store for LangGraph, on a Mnema server; needs `mnema[langgraph]`."""

from mnema.langgraph.migration import Migrated, MigrationError, amigrate, migrate
from mnema.langgraph.saver import MnemaSaver
from mnema.langgraph.store import MnemaStore

__all__ = ["Migrated", "MigrationError", "MnemaSaver", "MnemaStore", "amigrate", "migrate"]
