"""Read the transcripts that agents save of their conversations, with one reader per agent.

Main modules: `find`, `claude`, `codex`.
"""
