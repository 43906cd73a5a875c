"""Text of files: safe parsing, and edits that preserve comments, order and spelling.

Main modules: `safe_parse` (JSON and YAML within limits), `document`, `edits`, `style`.
"""
