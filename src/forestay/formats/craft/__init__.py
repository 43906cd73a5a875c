"""The craft format: one JSON file per session. Main modules: `format`, `schema`."""
