"""Clusters: what operators see of them."""
