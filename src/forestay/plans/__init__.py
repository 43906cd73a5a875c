"""Plans of work: workflows, phases and their gates, proofs, revisits, essays.

Main modules: `workflows` (definitions), `phases` (moving through a plan), `prove` (run a command
as evidence). The workflows in `shipped` come with the program.
"""
