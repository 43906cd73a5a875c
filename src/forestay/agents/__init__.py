"""Coding agents: their hooks, what hooks left in the spool, and their transcripts.

A *run* is one conversation of an agent. Main modules: `payloads` (what each agent sends), `ingest`
(into the journal), `install` (hooks into an agent's settings).
"""
