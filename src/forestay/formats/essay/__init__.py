"""The essay format: session-state.yaml, its backup, stage files and versions.

Main modules: `format`, `read`, `write`, `check`.
"""
