"""Public help for tests: the contracts of stores and remotes, faulty remotes, random histories.

Main modules: `store_contract`, `remote_contract`, `storage`, `histories`. The contracts need
pytest; the program itself loads nothing of this package.
"""
