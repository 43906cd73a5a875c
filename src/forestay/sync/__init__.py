"""Sessions travel between devices: sealed packs on a remote that nobody has to trust.

Main modules: `run` (one home and one remote), `session` (one session there), `push`.
"""
