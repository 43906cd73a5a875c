"""Keeps the bound files of a session equal to its state, and reads what others wrote there.

*Absorb* is taking an edit into the journal, *render* is writing files. Main modules: `mirror`,
`absorb`, `render`; `adopt` and `convert` start from files.
"""
