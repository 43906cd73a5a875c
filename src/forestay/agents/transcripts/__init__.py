"""Conversations as agents saved them. One reader per agent; `find` looks for the files.

Main modules: `find`, `claude`, `codex`.
"""
