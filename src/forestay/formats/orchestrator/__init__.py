"""The orchestrator format: `.claude/orchestrator-session.json` and its history.

Main modules: `format`, `schema`.
"""
