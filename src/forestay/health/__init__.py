"""Finds and repairs what is wrong with a home, and erases permanently.

Main modules: `doctor` (checks and fixes), `rebuild` (a damaged database), `forget`.
Words: a *finding* is what a check reports, a *case* is what is being examined.
"""
