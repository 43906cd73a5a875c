"""Run short scripts in forks of a process that has already loaded their imports.

It is for work that needs a new process many times: starting an interpreter takes twenty times as
long. It imports nothing of Forestay, so that a script runs as in a new process.
"""

from __future__ import annotations

import json
import subprocess
import sys

_SERVER = """
import fcntl, json, os, pathlib, sqlite3, sys
for line in iter(sys.stdin.buffer.raw.readline, b""):
    script, arguments = json.loads(line)
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.dup2(writer, 1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.argv, code = ["-c", *arguments], 1
        try:
            exec(script, {"__name__": "__main__"})
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            sys.stdout.flush()
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as said:
        text = said.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(1, json.dumps([code, text]).encode() + b"\\n")
"""


class Warm:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None and answers is not None
        requests.write(json.dumps([script, arguments]) + "\n")
        requests.flush()
        code, text = json.loads(answers.readline())
        return subprocess.CompletedProcess(arguments, code, text, "")

    def close(self) -> None:
        self._process.communicate()
