"""Serve a scripted model on the loopback, in the four protocols that agents use.

They are Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini. A prompt with
`[[script:NAME]]` selects a script; the number of tool results after that prompt is the number of
steps done. Names of unknown scripts are ignored, so a marker repeated inside a briefing has no
effect. Every request is stored, because tests check what the model received.

    python -m tests.real_agents.model FOLDER SCRIPTS.json [PORT]     to run it manually
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MARKER = re.compile(r"\[\[script:([\w-]+)\]\]")
SUMMARY = "The scripted summary: go on where it stopped."

Turn = tuple[str, str]  # the role ("user" or "tool"), and the text


@dataclass(frozen=True)
class Step:
    """Hold one answer: text, or the call of one tool. `tokens` is the reported cost."""

    text: str = ""
    tool: str = ""
    args: Any = field(default_factory=dict)  # a mapping, or the text of a free-form tool
    namespace: str = ""
    tokens: int = 900


Scripts = Mapping[str, Sequence[Step]]


@dataclass(frozen=True)
class Request:
    """Hold one request."""

    path: str
    body: dict[str, Any]
    script: str

    @property
    def text(self) -> str:
        """Return all strings that the model received, as one text without escapes."""
        return "\n".join(_strings(self.body))


class Model:
    """Run a server; `scripts` may be replaced at any time."""

    def __init__(self, scripts: Scripts, *, port: int = 0, folder: Path | None = None) -> None:
        self.scripts, self.folder = scripts, folder
        self.requests: list[Request] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, body: dict[str, Any], turns: Sequence[Turn]) -> Step:
        script, done = self._find_step(turns)
        self._store(Request(path, body, f"{script}#{done}"))
        steps = self.scripts.get(script, ())
        return steps[done] if done < len(steps) else Step(text="Nothing more is scripted.")

    def _find_step(self, turns: Sequence[Turn]) -> tuple[str, int]:
        script, done = "", 0
        for role, text in turns:
            named = [name for name in MARKER.findall(text) if name in self.scripts]
            if role == "tool":
                done += 1
            elif named:
                script, done = named[-1], 0
        return script, done

    def _store(self, request: Request) -> None:
        self.requests.append(request)
        if self.folder is not None:
            name = f"{len(self.requests):03d}-{request.script or 'none'}.json"
            (self.folder / name).write_text(json.dumps(request.body, indent=1))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)


def _id(prefix: str) -> str:
    return prefix + uuid.uuid4().hex[:22]


def _join_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(each.get("text", "") for each in content or () if isinstance(each, dict))


# --- Anthropic Messages ----------------------------------------------------------------------


def _messages_turns(body: dict[str, Any]) -> list[Turn]:
    turns: list[Turn] = []
    for message in body.get("messages", ()):
        if message["role"] != "user":
            continue
        content = message["content"]
        if isinstance(content, list):
            turns += [("tool", "") for each in content if each.get("type") == "tool_result"]
        turns.append(("user", _join_text(content)))
    return turns


def _wants_summary(turns: Sequence[Turn]) -> bool:
    return bool(turns) and "create a detailed summary" in turns[-1][1].lower()


def _messages(step: Step, body: dict[str, Any]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if step.text:
        blocks.append({"type": "text", "text": step.text})
    if step.tool:
        block = {"type": "tool_use", "id": _id("toolu_"), "name": step.tool, "input": step.args}
        blocks.append(block)
    stop = "tool_use" if step.tool else "end_turn"
    return [
        {"type": "message_start", "message": _message(step, body, [], None)},
        *_block_events(blocks),
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": {"output_tokens": 25},
        },
        {"type": "message_stop"},
    ]


def _message(
    step: Step, body: dict[str, Any], content: list[dict[str, Any]], stop: str | None
) -> dict[str, Any]:
    return {
        "id": _id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "scripted"),
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": step.tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 25,
        },
    }


def _block_events(blocks: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}


# --- OpenAI Responses ------------------------------------------------------------------------


def _responses_turns(body: dict[str, Any]) -> list[Turn]:
    given = body.get("input", ())
    if isinstance(given, str):
        return [("user", given)]
    turns: list[Turn] = []
    for item in given:
        kind = item.get("type", "message")
        if kind == "message" and item.get("role") == "user":
            turns.append(("user", _join_text(item.get("content"))))
        elif kind.endswith("_output"):
            turns.append(("tool", ""))
    return turns


def _responses_item(step: Step) -> dict[str, Any]:
    if not step.tool:
        text = {"type": "output_text", "text": step.text, "annotations": []}
        return {"type": "message", "id": _id("msg_"), "role": "assistant", "content": [text]}
    item: dict[str, Any] = {"id": _id("fc_"), "call_id": _id("call_"), "name": step.tool}
    if isinstance(step.args, str):
        item |= {"type": "custom_tool_call", "input": step.args}
    else:
        item |= {"type": "function_call", "arguments": json.dumps(step.args)}
    return {**item, "namespace": step.namespace} if step.namespace else item


def _responses(step: Step, body: dict[str, Any]) -> list[dict[str, Any]]:
    item = _responses_item(step)
    response: dict[str, Any] = {"id": _id("resp_"), "object": "response", "output": []}
    response["model"] = body.get("model")
    usage = {
        "input_tokens": step.tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": step.tokens + 20,
    }
    done = {**response, "status": "completed", "output": [item], "usage": usage}
    return [
        {"type": "response.created", "response": {**response, "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {**item, "status": "completed"},
        },
        {"type": "response.completed", "response": done},
    ]


# --- OpenAI Chat Completions -----------------------------------------------------------------


def _chat_turns(body: dict[str, Any]) -> list[Turn]:
    return [
        (message["role"], _join_text(message.get("content")))
        for message in body.get("messages", ())
        if message["role"] in ("user", "tool")
    ]


def _chat(step: Step, body: dict[str, Any]) -> list[dict[str, Any]]:
    if step.tool and body.get("tools"):
        function = {"name": step.tool, "arguments": json.dumps(step.args)}
        call = {"index": 0, "id": _id("call_"), "type": "function", "function": function}
        delta: dict[str, Any] = {"content": None, "tool_calls": [call]}
    else:
        delta = {"content": step.text or "A title"}
    stop = "tool_calls" if "tool_calls" in delta else "stop"
    usage = {
        "prompt_tokens": step.tokens,
        "completion_tokens": 20,
        "total_tokens": step.tokens + 20,
    }
    chunk = {
        "id": _id("chatcmpl-"),
        "object": "chat.completion.chunk",
        "created": int(time.time()),
        "model": body.get("model"),
    }
    first = {"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None}
    last = {"index": 0, "delta": {}, "finish_reason": stop}
    return [
        {**chunk, "choices": [first]},
        {**chunk, "choices": [last]},
        {**chunk, "choices": [], "usage": usage},
    ]


def _chat_whole(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    choice = {"index": 0, "message": events[0]["choices"][0]["delta"], "finish_reason": "stop"}
    return {**events[-1], "object": "chat.completion", "choices": [choice]}


# --- Gemini ----------------------------------------------------------------------------------

# The answer when the agent requests a decision in JSON between turns.
_DECISION = {
    "reasoning": "scripted",
    "next_speaker": "user",
    "model_choice": "flash",
    "complexity_score": 1,
    "complexity_reasoning": "scripted",
}


def _gemini_turns(body: dict[str, Any]) -> list[Turn]:
    turns: list[Turn] = []
    for content in body.get("contents", ()):
        for part in content.get("parts", ()):
            if "functionResponse" in part:
                turns.append(("tool", ""))
            elif content.get("role", "user") == "user" and "text" in part:
                turns.append(("user", part["text"]))
    return turns


def _gemini(step: Step, body: dict[str, Any]) -> dict[str, Any]:
    part: dict[str, Any] = {"text": step.text or "Nothing to say."}
    if body.get("generationConfig", {}).get("responseMimeType") == "application/json":
        part = {"text": json.dumps(_DECISION)}
    elif step.tool and body.get("tools"):
        part = {"functionCall": {"name": step.tool, "args": step.args}}
    content = {"role": "model", "parts": [part]}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": step.tokens,
            "candidatesTokenCount": 20,
            "totalTokenCount": step.tokens + 20,
        },
        "modelVersion": "scripted",
        "responseId": _id(""),
    }


# --- the server ------------------------------------------------------------------------------


def _handler(model: Model) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        def answer(self, body: dict[str, Any], turns: Sequence[Turn]) -> Step:
            return model.answer(self.path, body, turns)

    return Handler


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body: dict[str, Any], turns: Sequence[Turn]) -> Step:
        raise NotImplementedError

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._send(200, {})

    def do_GET(self) -> None:
        if self._path().endswith("/models"):
            model = {"id": "scripted", "object": "model", "created": 0, "owned_by": "tests"}
            self._send(200, {"object": "list", "data": [model], "models": [], "has_more": False})
        else:
            self._send(404, {"error": {"message": "not scripted"}})

    def do_POST(self) -> None:
        body, path = self._body(), self._path()
        if path.endswith("/count_tokens"):
            self._send(200, {"input_tokens": 100})
        elif path.endswith(":countTokens"):
            self._send(200, {"totalTokens": 100})
        elif path.endswith("/messages"):
            self._messages(body)
        elif path.endswith("/responses"):
            step = self.answer(body, _responses_turns(body))
            self._stream(_responses(step, body), named=True)
        elif path.endswith("/chat/completions"):
            self._chat(body)
        elif "generatecontent" in path.lower():
            self._gemini(body)
        else:
            self._send(404, {"error": {"message": "not scripted"}})

    def _messages(self, body: dict[str, Any]) -> None:
        turns = _messages_turns(body)
        step = self.answer(body, turns)
        if _wants_summary(turns):
            step = Step(text=f"<summary>{SUMMARY}</summary>")
        if body.get("stream"):
            self._stream(_messages(step, body), named=True)
        else:
            content = [{"type": "text", "text": step.text or "A title"}]
            self._send(200, _message(step, body, content, "end_turn"))

    def _chat(self, body: dict[str, Any]) -> None:
        events = _chat(self.answer(body, _chat_turns(body)), body)
        if body.get("stream"):
            self._stream(events, end=b"data: [DONE]\n\n")
        else:
            self._send(200, _chat_whole(events))

    def _gemini(self, body: dict[str, Any]) -> None:
        reply = _gemini(self.answer(body, _gemini_turns(body)), body)
        if "stream" in self.path:
            self._stream([reply])
        else:
            self._send(200, reply)

    def _path(self) -> str:
        return self.path.split("?")[0]

    def _body(self) -> dict[str, Any]:
        if self.headers.get("transfer-encoding") == "chunked":
            raw = b"".join(self._chunks())
        else:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body = json.loads(raw)
        except ValueError:
            body = {}
        return body if isinstance(body, dict) else {}

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _send(self, code: int, reply: object) -> None:
        data = json.dumps(reply).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _stream(
        self, events: Sequence[dict[str, Any]], *, named: bool = False, end: bytes = b""
    ) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for event in events:
                head = f"event: {event['type']}\n" if named else ""
                self.wfile.write(f"{head}data: {json.dumps(event)}\n\n".encode())
            self.wfile.write(end)
        except OSError:
            pass  # an agent that was killed does not read to the end


def _scripts(path: Path) -> Scripts:
    given = json.loads(path.read_text())
    return {name: [Step(**step) for step in steps] for name, steps in given.items()}


def main(argv: Sequence[str]) -> None:
    folder = Path(argv[0])
    folder.mkdir(parents=True, exist_ok=True)
    port = int(argv[2]) if len(argv) > 2 else 0
    print(Model(_scripts(Path(argv[1])), port=port, folder=folder).url, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1:])
