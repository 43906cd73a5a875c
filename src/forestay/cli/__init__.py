"""The command line: it parses, asks the library, and prints the answer.

Main modules: `table` (every command in one line), `dispatch`, `terminal` (the only way out).
"""
