"""The ai-session format: `.ai-session/` with state, plan and history of each feature.

Main modules: `format`, `read`, `write`, `schema`.
"""
