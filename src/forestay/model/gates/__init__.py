"""Gates of a plan: what a phase must show before it counts as done, and moves between phases.

Main modules: `gate` (judges evidence), `expression` (its safe language), `phase_moves`.
"""
