"""The folder a command runs in: its tree, its git, its project, its current session.

Main modules: `tree`, `project`, `current_session`.
"""
