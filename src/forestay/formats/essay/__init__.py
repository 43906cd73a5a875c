"""The essay format: session-state.yaml, its backup, stage files and versions.

Main modules: `format`, `fields`, `check`, `stage_files`.
"""
