"""The praxis format: one JSON file per session, and all its older generations.

Main modules: `format`, `read`, `write`, `schema`.
"""
