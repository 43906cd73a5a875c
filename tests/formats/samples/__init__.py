"""One sample per format for the contract suite: a session, and tables of what it has to show.

A new format brings a module with a `SAMPLE`; `tests/formats/test_format_contract.py` does the rest.
"""
