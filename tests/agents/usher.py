"""A doorkeeper's opposite: lets those in who have no token, for programs that cannot be told one.

It adds the token to each request and turns its own address in `Host` and `Origin` into the
server's; any other is passed on as it came, so that it is the server that judges it.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_OF_ONE_LINE = {"connection", "transfer-encoding", "keep-alive"}


class Usher:
    """Listens on `url` for a server at `port` that wants `token`."""

    def __init__(self, port: int, token: str) -> None:
        handler = _handler(port, token, lambda: self.port)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(port: int, token: str, here: Callable[[], int]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_POST(self) -> None:
            self._pass_on()

        def do_GET(self) -> None:
            self._pass_on()

        def do_DELETE(self) -> None:
            self._pass_on()

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as line:
                line.request(self.command, self.path, body or None, self._headers())
                with line.getresponse() as reply:
                    self._answer(reply)

        def _headers(self) -> dict[str, str]:
            mine, theirs = f"127.0.0.1:{here()}", f"127.0.0.1:{port}"
            sent = {name.title(): text for name, text in self.headers.items()}
            for name in ("Host", "Origin"):
                if name in sent:
                    sent[name] = (
                        sent[name].replace("localhost:", "127.0.0.1:").replace(mine, theirs)
                    )
            return {"Authorization": f"Bearer {token}", **sent}

        def _answer(self, reply: http.client.HTTPResponse) -> None:
            self.send_response(reply.status)
            for name, text in reply.getheaders():
                if name.lower() not in _OF_ONE_LINE:
                    self.send_header(name, text)
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True
            try:
                while piece := reply.read1(65_536):
                    self.wfile.write(piece)
                    self.wfile.flush()
            except (OSError, http.client.HTTPException):
                pass  # who asked, or who answered, did not stay

    return Handler
