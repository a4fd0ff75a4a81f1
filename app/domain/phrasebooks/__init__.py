"""Phrasebooks: the words and phrases of one language each, as data, and the patterns that they make.

A rule reads a text with the phrasebook of one language only. What no phrasebook knows gets the safe answer: nothing is
stored, merged, hidden or refused (docs/languages.md).
"""
