"""Keep the bound files of a session equal to its state, and record what others wrote there.

To *absorb* is to record an edit of a file, to *render* is to write files. Main modules: `mirror`,
`absorb`, `render`; `adopt` and `convert` start from files.
"""
