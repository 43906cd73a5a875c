"""Prints the SQL that makes the tables of a schema, for who may create them.

python -m holdfast.store.postgres [SCHEMA]
"""

import sys

from holdfast.store.postgres.schema import statements

print(";\n".join([*statements((sys.argv[1:] or ["holdfast"])[0]), ""]))  # noqa: T201
