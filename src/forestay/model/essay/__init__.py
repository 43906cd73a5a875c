"""Essays as a plan: stages, sections and paragraphs, and which move comes next.

Main modules: `rules`, `moves`, `next_step`.
"""
