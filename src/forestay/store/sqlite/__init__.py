"""The SQLite store: one database per user, one writer at a time.

Main modules: `store`, `connection`, `writer_lock`.
"""
