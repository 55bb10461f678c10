"""Where make takes PyTorch from: never from an index that does not answer, and quickly so."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from scripts.packaging import torch_index as script
from scripts.packaging.torch_index import CPU_INDEX, has_gpu, main, obstacle

URL = "https://packages.example/cpu"


@pytest.fixture(autouse=True)
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without a GPU."""
    monkeypatch.setattr(script, "has_gpu", lambda: has_gpu(tmp_path))
    monkeypatch.setattr(script.shutil, "which", lambda name: None)
    return tmp_path


@pytest.mark.parametrize(
    ("asked", "why", "out", "err", "exit_code"),
    [
        ("auto", None, f"{CPU_INDEX}\n", "", 0),
        ("auto", "no route", "", f"({CPU_INDEX}: no route); using the default one", 0),
        ("", "no route", "", "", 0),
        (URL, None, f"{URL}\n", "", 0),
        (URL, "no route", "", f"TORCH_INDEX={URL}: cannot be reached (no route)", 2),
    ],
)
def test_without_a_gpu(
    asked: str, why: str | None, out: str, err: str, exit_code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([asked], lambda index: why) == exit_code
    said = capsys.readouterr()
    assert said.out == out
    assert err in said.err
    assert said.err.count("\n") == bool(err)


def test_with_a_gpu_the_usual_build_is_taken(devices: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("nvidia0", "dxg"):
        (devices / name).touch()
        assert main(["auto"], lambda index: None) == main([URL], lambda index: None) == 0
        assert capsys.readouterr().out == f"{URL}\n"  # what is asked for is done
        (devices / name).unlink()


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/good/torch/" else 404)
        self.end_headers()
        self.wfile.write(b"x")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Answers) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


def test_an_index_is_reached_or_not(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert obstacle(f"{server}/good") is None
    assert "Not Found" in str(obstacle(f"{server}/bad"))
    assert obstacle("/a/directory") is None


def test_an_index_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        why = obstacle(f"http://127.0.0.1:{silent.getsockname()[1]}/x", patience_s=0.2)
    assert "timed out" in str(why) or "no answer in 0.2 s" in str(why)
