"""Receiving an object through what urllib3 keeps to itself, so that a newer one may take it away."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from botocore.exceptions import ResponseStreamingError
from botocore.response import StreamingBody
from urllib3 import HTTPConnectionPool

from zbackup.destinations.s3.client import _fill

CONTENT = bytes(range(256)) * 1000


class Object(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[: -1 if self.path == "/cut" else None])
        self.close_connection = self.path == "/cut"

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def pool() -> Iterator[HTTPConnectionPool]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Object) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        with HTTPConnectionPool("127.0.0.1", server.server_address[1], maxsize=1) as made:
            yield made
        server.shutdown()
        thread.join()


def body(pool: HTTPConnectionPool, path: str) -> StreamingBody:
    """As botocore gives it."""
    answer = pool.request("GET", path, preload_content=False, decode_content=False)
    return StreamingBody(answer, answer.headers["Content-Length"])


def test_the_room_is_filled_and_the_connection_is_free_again(pool: HTTPConnectionPool) -> None:
    for _ in range(2):
        answer, content = body(pool, "/"), bytearray(len(CONTENT))
        with memoryview(content) as room:
            for at in range(0, len(content), 100_000):
                _fill(answer, room[at : at + 100_000])
        assert content == CONTENT
    assert pool.num_connections == 1


def test_an_answer_that_ends_early_is_told(pool: HTTPConnectionPool) -> None:
    answer = body(pool, "/cut")
    with pytest.raises(ResponseStreamingError, match="1 more expected"):
        _fill(answer, memoryview(bytearray(len(CONTENT))))
    answer.close()
