"""Tests of the pages: every code block of them is run, or named as one that is not."""
