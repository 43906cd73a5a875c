"""The journal: the only writer of events; it also reads, verifies, exports and moves them.

Main modules: `journal` (append and read), `verify` (detect changes), `backup`.
"""
