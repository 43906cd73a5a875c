"""Tables with facts of one machine: projects, bindings, agent runs, remotes. Always in SQLite.

Main modules: `projects`, `bindings`, `remotes`.
"""
