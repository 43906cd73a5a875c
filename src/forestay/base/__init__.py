"""Plain tools that know nothing about sessions: time, ids, text, secrets, files, settings.

Everything else may import this room; it imports only `errors`. Main modules: `files` (durable
writes), `text` (the only way out for stored text), `redact` (secrets).
"""
