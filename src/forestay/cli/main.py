"""The command line: it parses, asks the façade, and says the answer. It holds no rule of its own.

`entry` is the console script; `main` is the same without leaving the process, for tests and for
programs that want the answer on their own streams. The table of commands is in `table`, one
module per group of commands holds what they take and what they do, `screen` is the only way out.
"""

from __future__ import annotations

import gc
import os
import sys

from forestay.errors import BROKEN_PIPE, FAILED, INTERRUPTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn, TextIO

_SELDOM = 50_000


def main(
    argv: Sequence[str],
    out: TextIO | None = None,
    err: TextIO | None = None,
    source: TextIO | None = None,
) -> int:
    """Run one command and return its exit code. Streams not given are those of the process."""
    from forestay.cli.dispatch import run

    return run(argv, out, err, source)


def entry() -> NoReturn:
    """Run the command of this process and leave it.

    Leaving is abrupt on purpose: everything that was acknowledged is on disk by then, tearing
    the interpreter down takes milliseconds, and a connection that is not closed in order leaves
    the checkpoint of a last close to whoever works on. For the same reason rubbish is seldom
    looked for: almost nothing that is made while starting ever becomes any.
    """
    code = FAILED
    try:
        gc.set_threshold(_SELDOM)
        _open_missing_streams()
        from forestay.cli.dispatch import run

        code = run(sys.argv[1:], None, None, None, leaving=True)
        code = _flush(code)
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        os._exit(code)


def _open_missing_streams() -> None:
    """A closed standard stream must not become the number of a file of ours."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _flush(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return BROKEN_PIPE
    except OSError as error:
        code = code or FAILED
        reason = error.strerror or type(error).__name__
        os.write(2, f"forestay: the answer could not be written: {reason}\n".encode())
    try:
        sys.stderr.flush()
    except OSError:
        return code
    return code
