"""Find and repair what is wrong with a home, and erase sessions and events permanently.

Main modules: `doctor` (checks and fixes), `rebuild` (a damaged database), `forget`.
Words: a *finding* is one problem that a check reports; a *case* is the home being examined.
"""
