"""The public library: `Forestay` and `Session`, used by every surface.

Main modules: `forestay`, `session`, `start`.
"""
