"""Mnema beside mem0 and LangGraph's store on one corpus and one PostgreSQL: `mnema bench rivals`."""
