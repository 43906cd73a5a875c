"""The PostgreSQL store: journals on a server, the tables of one machine in a local SQLite file.

Main modules: `store`, `append`, `connection`.
"""
