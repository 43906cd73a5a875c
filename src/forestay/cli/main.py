"""The command line: it parses, calls the library, and prints the answer. It has no rules.

`entry` is the console script; `main` is the same without leaving the process, for tests and for
programs that want the answer on their own streams. The table of commands is in `table`, one
module per group of commands has their arguments and code, `terminal` is the only output.
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

    It exits abruptly on purpose: everything acknowledged is on disk by then, shutting down the
    interpreter takes milliseconds, and an unclosed SQLite connection leaves its WAL checkpoint to
    the next process. Garbage collection is rare, because a short process makes little garbage.
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
    """Open closed standard streams, so that no file opened later gets their number."""
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
        os.write(2, f"forestay: the output could not be written: {reason}\n".encode())
    try:
        sys.stderr.flush()
    except OSError:
        return code
    return code
