"""What is wrong with an installation, and how it is repaired; erasing for good.

Main modules: `doctor` (looks and repairs), `rebuild` (a damaged database), `forget`.
"""
