"""The briefing: what the next reader must know, within a budget of tokens. It reads no files.

Main modules: `brief` (puts it together), `sections` (what each part states), `budget` (what is
left out when it does not fit).
"""
