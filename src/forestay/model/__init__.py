"""Events, state and the rules between them, as pure functions and values.

A journal's *events* are *folded* into a *state*; a *rule* decides whether a move is allowed. No
clock, file or network is used here. Main modules: `event`, `fold`, `rules`.
"""
