"""Adapters for agent frameworks. Each module needs its framework, an extra of `mnema-client`; none loads by itself."""
