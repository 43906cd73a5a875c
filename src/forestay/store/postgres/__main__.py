"""Print the SQL that creates the tables of a schema, for an administrator.

python -m forestay.store.postgres [SCHEMA]
"""

import os
import sys

from forestay.store.postgres.connection import SCHEMA
from forestay.store.postgres.schema import statements

if __name__ == "__main__":
    name, *more = sys.argv[1:] or ["forestay"]
    if more or not SCHEMA.fullmatch(name):
        sys.exit("usage: python -m forestay.store.postgres [SCHEMA]")
    try:
        print(";\n".join([*statements(name), ""]), flush=True)  # noqa: T201
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
