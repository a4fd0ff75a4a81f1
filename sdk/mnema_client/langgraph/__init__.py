"""Checkpoint saver and store for LangGraph, on a Mnema server; needs `mnema-client[langgraph]`."""

from mnema_client.langgraph.migration import Migrated, MigrationError, amigrate, migrate
from mnema_client.langgraph.saver import MnemaSaver
from mnema_client.langgraph.store import MnemaStore

__all__ = ["Migrated", "MigrationError", "MnemaSaver", "MnemaStore", "amigrate", "migrate"]
