"""Tables that are true of one machine: projects, bindings, agent runs, remotes. Always SQLite.

Main modules: `projects`, `bindings`, `remotes`.
"""
