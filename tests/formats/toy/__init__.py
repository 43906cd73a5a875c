"""A sixth format for tests: one JSON file with a name, a state word and a list of items."""
