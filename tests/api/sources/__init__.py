"""Tests of the routes of sources."""
