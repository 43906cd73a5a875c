"""Contracts for authors of stores and remotes: `store_contract` and `remote_contract`.

Both need pytest; the program itself loads nothing of this package.
"""
