"""Keep a session's bound files equal to its state, and record what other programs write into them.

To *absorb* an edit is to record it as events; to *render* is to write files from the state. Main
modules: `mirror`, `absorb`, `render`; `adopt` and `convert` start from files.
"""
