"""The public library: `Forestay` and `Session`, and nothing that a surface would repeat.

Main modules: `forestay`, `session`, `start`.
"""
