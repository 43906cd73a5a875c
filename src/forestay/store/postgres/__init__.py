"""The PostgreSQL store, for servers and fleets: journals there, machine tables in a local SQLite.

Main modules: `store`, `append`, `connection`.
"""
