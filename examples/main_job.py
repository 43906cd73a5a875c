"""The main job, shown: two agents at work, one killed in the middle of a write, then resumed.

Runs in a scratch folder with a home of its own and leaves nothing behind. Everything below is
done with the library; the last line is the command to try next.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

import forestay

AGENT = """
import sys
import forestay

home, session, name, task, doomed = sys.argv[1:]
stay = forestay.open(home)
s = stay.session(session)
with s.agents.run(name, type="feature-dev", task=f"work on {task}") as agent:
    s.tasks.start(task, agent=name)
    for part in range(1, 6):
        agent.progress(part / 5)
        agent.note(f"part {part} of {task} is written")
        print(f"{name}: part {part} of {task} is acknowledged", flush=True)
        if doomed == "yes" and part == 3:
            print("ready to die", flush=True)
            while True:
                agent.note("a write that may or may not have finished")
    s.tasks.done(task, outcome="all five parts are written")
    agent.done("all five parts are written")
stay.close()
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        return show(os.path.join(folder, "home"))


def show(home: str) -> int:
    with forestay.open(home) as stay:
        session = stay.start("Add password reset by e-mail")
        title("A session begins")
        print(f"session {session.id}: Add password reset by e-mail")
        session.tasks.add("send the reset mail", id="mail")
        session.tasks.add("the form for a new password", id="form")
        session.decide(
            "tokens are single-use and expire after an hour",
            because="a leaked mail must not open the account later",
            options=["single-use, one hour", "signed link, one day"],
            chosen="single-use, one hour",
        )
        title("Two agents record work; one is killed in the middle of a write")
        agents(home, session.id)
    with forestay.open(home) as stay:
        return pick_up(stay, session.id)


def agents(home: str, session: str) -> None:
    steady = agent(home, session, "code-1", "mail", doomed="no")
    doomed = agent(home, session, "code-2", "form", doomed="yes")
    assert doomed.stdout is not None
    for line in doomed.stdout:
        if line.strip() == "ready to die":
            break
        print(f"  {line.strip()}")
    time.sleep(0.05)
    doomed.send_signal(signal.SIGKILL)
    doomed.wait()
    print("  code-2 was killed with SIGKILL while it wrote its next note")
    out, _ = steady.communicate()
    print(textwrap.indent(out.strip(), "  "))


def agent(home: str, session: str, name: str, task: str, *, doomed: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", AGENT, home, session, name, task, doomed]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def pick_up(stay: forestay.Forestay, id: str) -> int:
    session = stay.session(id)
    title("Someone picks it up: the briefing")
    show_text(session.resume(budget=700, fenced=False).text)
    title("Nothing that was acknowledged is lost: the journal verifies")
    report = session.verify()
    print(f"{report.events} events, {'sound' if report.ok else 'DAMAGED'}")
    for finding in report.findings:
        print(f"  {finding.message}")
    title("Try it next, in a project of yours")
    program = os.path.join(os.path.dirname(sys.executable), "forestay")
    print(f'{program} start "what you are about to do"')
    return 0 if report.ok else 1


def show_text(text: str) -> None:
    """Lines that do not fit a terminal are broken between words, as `forestay resume` does."""
    columns = os.get_terminal_size().columns if sys.stdout.isatty() else 0
    for line in text.splitlines():
        fits = not columns or len(line) <= columns
        print(line if fits else textwrap.fill(line, columns, subsequent_indent="  "))


def title(text: str) -> None:
    print(f"\n── {text} ".ljust(80, "─"))


if __name__ == "__main__":
    sys.exit(main())
