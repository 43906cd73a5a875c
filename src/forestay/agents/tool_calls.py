"""Turn the tool calls of any agent into events.

Agents have different names for the same few tools: run a command, write a file, edit it, apply a
patch, update a to-do list, start a sub-agent. Tools that only read have no events; any other tool,
mostly of MCP servers, is recorded as a command that ran. `_HANDLERS` maps names to functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from forestay.agents.hook_event import (
    MOST,
    WIDE,
    Todo,
    WrongShape,
    cut_text,
    first_text,
    name_in,
    object_in,
    objects_in,
    one_line,
    parse_count,
    path_in,
    read_object,
    text_digest,
    text_in,
)
from forestay.base.hashing import digest_of
from forestay.model import event as ev

_ERROR = 3000
_WORD = 200


class Call(Struct, frozen=True, kw_only=True):
    """A tool call and its result.

    `error` is None unless the agent reports a failure. Some agents report no exit code.
    """

    tool: str
    input: object = None
    response: object = None
    error: str | None = None
    duration: int | None = None
    by: str = ""
    cwd: str = ""
    native: str = ""
    key: str = ""
    tells_end: bool = True


class Effects(Struct, frozen=True, kw_only=True):
    bodies: tuple[ev.Body, ...] = ()
    shell: bool = False
    todo: tuple[Todo, ...] | None = None


NOTHING = Effects()


def parse_call(call: Call) -> Effects:
    """Return the events of a call that has ended."""
    if call.tool in LOOKS or call.tool.startswith(_LOOKS):
        return NOTHING
    return _HANDLERS.get(call.tool, _other)(call)


def doing(tool: str, given: object) -> str:
    """Describe a call that has begun in one line: `Bash: pytest -q`."""
    reported = given if isinstance(given, dict) else {}
    about = first_text(_as_text(reported.get(name)) for name in _ABOUT)
    return one_line(f"{tool}: {about}" if about else tool)


def assignment(tool: str, given: object) -> str:
    """Return the task of the sub-agent that a call starts, else ""."""
    if tool not in SENDS or not isinstance(given, dict):
        return ""
    return one_line(
        first_text(text_in(given, name) for name in ("description", "prompt", "message"))
    )


_ABOUT = (
    *("command", "cmd", "file_path", "filePath", "notebook_path", "description", "url", "pattern"),
    *("query", "path", "prompt", "subject", "message"),
)


def _as_text(value: object) -> str:
    if isinstance(value, list):
        return " ".join(str(word) for word in value[:MOST] if isinstance(word, str))[:WIDE]
    return value[:WIDE] if isinstance(value, str) else ""


# -- results -----------------------------------------------------------------------------------

_AT_FIRST = re.compile(
    r"(?:[^\n]*\n){0,3}(?:Exit code|Process exited with code):? (-?\d{1,9})\b\n?"
)
# Only at the end of the report: the output of a command can contain such a line before that.
_AT_LAST = re.compile(r"\nExit Code: (-?\d{1,9})\n(?:[^\n]{0,200}\n){0,4}[^\n]{0,200}\Z")


# The report of Gemini and Qwen about a command.
_PRINTED = re.compile(r"^Output: (.*?)\n(?:Error: [^\n]*\n)?Exit Code: ", re.S | re.M)


def failure(call: Call) -> str | None:
    """Return what went wrong with a call; None if nothing did."""
    if call.error is not None:
        return _exit_in(call.error) or _gist(call.error) or "failed"
    response = call.response
    if isinstance(response, str):
        return _exit_in(response) if call.tells_end else None
    if not isinstance(response, dict):
        return None
    if response.get("interrupted") is True:
        return "interrupted"
    error = response.get("error")
    if isinstance(error, dict):
        return _gist(text_in(error, "message")) or "failed"
    if isinstance(error, str) and error.strip():
        return _gist(error)
    if response.get("isError") is True:
        return _gist(words(response)) or "failed"
    return _exit_code(response)


def _exit_code(response: dict[str, Any]) -> str | None:
    code = object_in(response, "metadata").get("exit")
    if isinstance(code, int) and not isinstance(code, bool):
        return _ended(code, text_in(response, "output")) if code else None
    reason = name_in(object_in(response, "returnDisplay"), "terminateReason")
    if reason not in ("", "GOAL"):
        return reason
    reported = response.get("llmContent")
    return _exit_in(reported) if isinstance(reported, str) else None


def _exit_in(reported: str) -> str | None:
    found = _AT_FIRST.match(reported[:1000]) or _AT_LAST.search(reported[-1000:])
    if not found or not int(found[1]):
        return None
    printed = _PRINTED.search(reported)
    return _ended(found[1], printed[1] if printed else reported[found.end() :] or reported)


def _ended(code: object, output: str) -> str:
    return f"exit {str(code)[:12]}\n{_gist(output)}".strip()


def _gist(reported: str) -> str:
    """Return the first line and the end of an error, which show what failed and why.

    Only whole lines are cut, and never inside a key: half a secret is not recognized as one.
    """
    if len(reported) <= _ERROR:
        return reported.strip()
    end = reported[-_ERROR:].partition("\n")[2].rpartition("PRIVATE KEY")[2]
    start = reported[:_WORD].partition("\n")
    kept = [start[0]] * bool(start[1]) + ["…", end]
    return "\n".join(kept).strip() if end.strip() else reported[:WIDE]


def words(response: object) -> str:
    """Return the text of a response, whatever its form."""
    if isinstance(response, str):
        return response[:WIDE]
    if isinstance(response, list):
        return "\n".join(words(part) for part in response[:MOST])[:WIDE]
    if not isinstance(response, dict):
        return ""
    names = ("text", "output", "content", "returnDisplay", "result", "llmContent")
    return first_text(words(response.get(name)) for name in names)


# -- commands ----------------------------------------------------------------------------------


def _shell(call: Call) -> Effects:
    given = read_object(call.input, "tool_input")
    line = first_text(_as_text(given.get(name)) for name in ("command", "cmd")).strip()
    if not line:
        raise WrongShape("the command is empty")
    name, _, rest = line.partition(" ")
    if len(name) > _WORD or "\n" in name:
        name, rest = cut_text(name.partition("\n")[0], _WORD), line
    response = call.response if isinstance(call.response, dict) else {}
    if isinstance(response.get("backgroundTaskId"), str) or given.get("is_background") is True:
        rest += "  # in the background"
    return Effects(bodies=(_command(call, name, rest.strip()),), shell=True)


def _command(call: Call, name: str, arguments: str) -> ev.CommandRan:
    wrong = failure(call)
    ended = "success" if call.tells_end or not isinstance(call.response, str) else "unknown"
    return ev.CommandRan(
        name=name,
        arguments=arguments[:WIDE],
        status=ended if wrong is None else "failure",
        duration_ms=call.duration,
        error=wrong or "",
        agent=call.by,
    )


def _other(call: Call) -> Effects:
    """Record a tool of an MCP server, or an unknown tool, as a command that ran."""
    given = call.input if isinstance(call.input, dict) else {}
    reported = ", ".join(f"{key}={_brief(value)}" for key, value in list(given.items())[:20])
    return Effects(bodies=(_command(call, call.tool, cut_text(reported, 2000)),))


def _brief(value: object) -> str:
    if isinstance(value, dict | list):
        return "{…}" if isinstance(value, dict) else "[…]"
    return one_line(value, 400) if isinstance(value, str) else one_line(str(value))


# -- files -------------------------------------------------------------------------------------

_BEFORE = ("originalFile", "original_file", "originalContent")
_AFTER = ("content", "updated_file", "newContent")
_PATHS = ("filePath", "file_path", "filepath", "notebook_path", "absolute_path", "path")


def _file(call: Call) -> Effects:
    """Record a written or edited file, with digests before and after if they are known."""
    if failure(call) is not None:
        return NOTHING
    given = read_object(call.input, "tool_input")
    reported = _answer(call.response)
    path = first_text(path_in(source, name) for source in (reported, given) for name in _PATHS)
    if not path:
        raise WrongShape("the file has no path")
    before = next((reported[name] for name in _BEFORE if name in reported), None)
    after = _content(call, given, reported, before)
    is_new = _is_new(reported, before)
    added, removed = _lines(reported, "" if is_new else before, after)
    changed = ev.FileChanged(
        path=path,
        action="created" if is_new else "modified",
        agent=call.by,
        added=added,
        removed=removed,
        before="" if is_new else text_digest(before),
        after=text_digest(after),
    )
    return Effects(bodies=(changed,))


def _answer(response: object) -> dict[str, Any]:
    """Return the part of a response that describes the file."""
    if not isinstance(response, dict):
        return {}
    shown = response.get("returnDisplay")
    return shown if isinstance(shown, dict) else {**object_in(response, "metadata"), **response}


def _content(call: Call, given: dict[str, Any], reported: dict[str, Any], before: object) -> object:
    for name in _AFTER:
        if isinstance(reported.get(name), str):
            return reported[name]
    if call.tool in WRITES:
        return given.get("content")
    return _edited(before, reported, given) if isinstance(before, str) else None


def _edited(before: str, reported: dict[str, Any], given: dict[str, Any]) -> str | None:
    """Apply the reported edits to a text; None if one does not fit."""
    edits = objects_in(given, "edits") or [{**given, **reported}]
    for edit in edits:
        old = first_text(
            text_in(edit, name, len(before) + 1) for name in ("oldString", "old_string")
        )
        new = first_text(text_in(edit, name, WIDE * MOST) for name in ("newString", "new_string"))
        if not old or old not in before:
            return None
        if not new and not old.endswith("\n") and f"{old}\n" in before:
            old += "\n"  # removing a line leaves no empty line
        everywhere = True in (edit.get("replaceAll"), edit.get("replace_all"))
        before = before.replace(old, new, -1 if everywhere else 1)
    return before


def _is_new(reported: dict[str, Any], before: object) -> bool:
    for name, new in (("isNewFile", True), ("exists", False)):
        if isinstance(reported.get(name), bool):
            return bool(reported[name] is new)
    if isinstance(reported.get("type"), str):
        return bool(reported["type"] == "create")
    return "originalContent" in reported and before == ""


def _lines(
    reported: dict[str, Any], before: object, after: object
) -> tuple[int | None, int | None]:
    """Count added and removed lines; None where it is not known."""
    for name, more, less in (
        ("diffStat", "model_added_lines", "model_removed_lines"),
        ("filediff", "additions", "deletions"),
    ):
        stat = object_in(reported, name)
        if parse_count(stat.get(more)) is not None:
            return parse_count(stat.get(more)), parse_count(stat.get(less))
    if hunks := objects_in(reported, "structuredPatch"):
        lists = [lines for hunk in hunks if isinstance(lines := hunk.get("lines"), list)]
        marks = [line[:1] for lines in lists for line in lines if isinstance(line, str)]
        return marks.count("+"), marks.count("-")
    if not isinstance(before, str) or not isinstance(after, str):
        return None, None
    return _changed(before.splitlines(), after.splitlines())


def _changed(before: list[str], after: list[str]) -> tuple[int, int]:
    """Count the lines of two texts between their common beginning and their common end.

    This is quick, and never counts too few changed lines.
    """
    most = min(len(before), len(after))
    first = next((n for n in range(most) if before[n] != after[n]), most)
    ends = range(1, most - first + 1)
    last = next((n - 1 for n in ends if before[-n] != after[-n]), most - first)
    return len(after) - first - last, len(before) - first - last


# -- patches -----------------------------------------------------------------------------------

_HEADS = {"Add": "created", "Update": "modified", "Delete": "deleted"}
_HEAD = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_MOVED = "*** Move to: "


def _patch(call: Call) -> Effects:
    given = call.input if not isinstance(call.input, str) else {"input": call.input}
    values = read_object(given, "input")
    names = ("command", "input", "patchText", "patch")
    patch = first_text(_as_text(values.get(name)) for name in names)
    if "*** Begin Patch" not in patch:
        raise WrongShape("the patch does not begin with *** Begin Patch")
    return NOTHING if failure(call) is not None else Effects(bodies=tuple(patched(patch, call)))


def patched(patch: str, call: Call) -> Iterator[ev.FileChanged]:
    """Yield the files that a patch of the form `*** Begin Patch` changes."""
    parts = _HEAD.split(patch)[1:]
    for kind, path, body in list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))[:MOST]:
        lines = body.split("\n")[1:]
        target = first_text(one[len(_MOVED) :].strip() for one in lines if one.startswith(_MOVED))
        if target:
            yield ev.FileChanged(path=_full(path, call.cwd), action="deleted", agent=call.by)
        marks = [line[:1] for line in lines]
        is_new = kind == "Add"
        content = "".join(f"{one[1:]}\n" for one in lines if one.startswith("+"))
        yield ev.FileChanged(
            path=_full(target or path, call.cwd),
            action="created" if target else _HEADS[kind],
            agent=call.by,
            added=marks.count("+"),
            removed=marks.count("-"),
            after=text_digest(content) if is_new and len(patch) < WIDE else "",
        )


def _full(path: str, cwd: str) -> str:
    path = path.strip()[:4096]
    return path if path.startswith("/") or not cwd else f"{cwd}/{path}"


# -- tasks -------------------------------------------------------------------------------------

_DONE = {
    "in_progress": "running",
    **dict.fromkeys(("completed", "done"), "done"),
    **dict.fromkeys(("cancelled", "canceled", "deleted"), "skipped"),
}


def _todos(call: Call) -> Effects:
    """Return the whole current to-do list."""
    given = read_object(call.input, "tool_input")
    if failure(call) is not None:
        return NOTHING
    found: dict[str, Todo] = {}
    names = ("content", "description", "step")
    for line in objects_in(given, "todos") or objects_in(given, "plan"):
        if title := one_line(first_text(text_in(line, name) for name in names)):
            id = f"todo-{digest_of(title.encode('utf-8', 'replace'))[:8]}"
            status = _DONE.get(name_in(line, "status"), "pending")
            found[id] = Todo(id, title, status)
    return Effects(todo=tuple(found.values()))


def _task_created(call: Call) -> Effects:
    title = one_line(text_in(read_object(call.input, "tool_input"), "subject"))
    answer = call.response if isinstance(call.response, dict) else {}
    task = object_in(answer, "task") or answer
    id = first_text(name_in(task, name) for name in ("id", "taskId"))
    if not title or not id or failure(call) is not None:
        return NOTHING
    return Effects(bodies=(ev.StepAdded(step=_task_id(call, id), title=title),))


def _task_updated(call: Call) -> Effects:
    given = read_object(call.input, "tool_input")
    id, status = name_in(given, "taskId"), _DONE.get(name_in(given, "status"), "")
    if not id or not status or failure(call) is not None:
        return NOTHING
    return Effects(bodies=tuple(status_events(_task_id(call, id), status, agent=call.by)))


def status_events(step: str, status: str, *, agent: str = "") -> list[ev.Body]:
    """Return the event that gives a task the status of a to-do list; none for "pending"."""
    if status == "running":
        return [ev.StepStarted(step=step, agent=agent)]
    if status == "done":
        return [ev.StepCompleted(step=step)]
    because = "removed from the list"
    return [ev.StepSkipped(step=step, because=because)] if status == "skipped" else []


def _task_id(call: Call, id: str) -> str:
    """Return a task id with the conversation in it: agents number tasks per conversation."""
    return f"{call.native[:8]}-{id[:40]}"


# -- sub-agents --------------------------------------------------------------------------------


def _sent(call: Call) -> Effects:
    """Record the tokens of a sub-agent; its start and end are reported by other events."""
    answer = call.response if isinstance(call.response, dict) else {}
    agent, tokens = name_in(answer, "agentId"), parse_count(answer.get("totalTokens"))
    if not agent or not tokens:
        return NOTHING
    return Effects(bodies=(ev.ContextMeasured(tokens=tokens, agent=agent),))


def sent_and_back(call: Call, agent: str, kind: str) -> tuple[ev.Body, ...]:
    """Return the start and end of a sub-agent that is reported only by its call."""
    began = ev.AgentStarted(agent=agent, type=kind, task=assignment(call.tool, call.input))
    wrong = failure(call)
    if wrong is not None:
        return (began, ev.AgentFailed(agent=agent, error=wrong))
    return (began, ev.AgentFinished(agent=agent, result=words(call.response)))


SHELLS = frozenset(
    {"Bash", "bash", "run_shell_command", "shell", "shell_command", "exec_command", "local_shell"}
)
WRITES = frozenset({"Write", "write", "write_file"})
EDITS = frozenset({"Edit", "edit", "MultiEdit", "multiedit", "NotebookEdit", "replace"})
PATCHES = frozenset({"apply_patch", "patch"})
LISTS = frozenset({"TodoWrite", "todowrite", "todo_write", "write_todos", "update_plan"})
SENDS = frozenset({"Agent", "Task", "agent", "task", "invoke_agent", "spawn_agent"})
LOOKS = frozenset(
    """
    AskUserQuestion BashOutput CronCreate CronDelete CronList EnterPlanMode EnterWorktree
    ExitPlanMode ExitWorktree Glob Grep KillShell LS ListMcpResourcesTool Monitor NotebookRead
    Read ReadMcpResourceTool SendMessage Skill SlashCommand TaskGet TaskList TaskOutput TaskStop
    ToolSearch WebFetch WebSearch
    activate_skill ask_user ask_user_question codesearch complete_task create_goal
    enter_plan_mode exit_plan_mode get_goal get_internal_docs glob google_web_search grep
    grep_search list list_directory list_mcp_resource_templates list_mcp_resources lsp question
    read read_file read_many_files read_mcp_resource request_user_input save_memory
    search_file_content skill todoread tool_search update_goal update_topic view_image wait
    web_fetch web_search webfetch websearch write_stdin
    """.split()
)
"""Tools that only read, ask the user, or control the agent."""
_LOOKS = ("mcp__forestay__", "mcp_forestay_", "forestay_")
"""Prefixes of the MCP tools of Forestay, which record their own events."""

_HANDLERS: dict[str, Callable[[Call], Effects]] = {
    **dict.fromkeys(SHELLS, _shell),
    **dict.fromkeys(WRITES | EDITS, _file),
    **dict.fromkeys(PATCHES, _patch),
    **dict.fromkeys(LISTS, _todos),
    **dict.fromkeys(SENDS, _sent),
    "TaskCreate": _task_created,
    "TaskUpdate": _task_updated,
}
