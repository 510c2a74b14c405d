"""A cache of each test's own, no directory of data, no network, and a server that stands for UCI's."""

from __future__ import annotations

import http.server
import io
import threading
import urllib.request
import zipfile

import pytest

from blockbasis.datasets import recipes


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The empty cache directory; the machine's own data and the network are out of reach."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("BLOCKBASIS_CACHE", str(folder))
    monkeypatch.delenv("BLOCKBASIS_DATA", raising=False)

    def unreachable(*args, **kwargs):
        raise urllib.request.URLError("no network in tests")

    for name in ("fetch_openml", "fetch_covtype"):
        monkeypatch.setattr(recipes, name, unreachable)
    monkeypatch.setattr(recipes, "UCI", "http://127.0.0.1:9")  # the port where nothing answers
    return folder


@pytest.fixture
def uci(monkeypatch):
    """Function that puts an archive, a dictionary from names to texts, under a path of a local server."""
    served = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = served.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setattr(recipes, "UCI", f"http://127.0.0.1:{server.server_port}")

    def serve(path, members):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, text in members.items():
                archive.writestr(name, text)
        served[path] = buffer.getvalue()

    yield serve
    server.shutdown()
    thread.join()
    server.server_close()
