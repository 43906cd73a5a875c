"""Prints the SQL that makes the tables of a schema, for who may create them.

python -m holdfast.store.postgres [SCHEMA]
"""

import sys

from holdfast.store.postgres.schema import statements
from holdfast.store.postgres.server import SCHEMA

if __name__ == "__main__":
    name, *more = sys.argv[1:] or ["holdfast"]
    if more or not SCHEMA.fullmatch(name):
        sys.exit("usage: python -m holdfast.store.postgres [SCHEMA]")
    print(";\n".join([*statements(name), ""]))  # noqa: T201
