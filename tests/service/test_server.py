"""The server between socket and application: what is no HTTP, who is slow."""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from time import sleep

import pytest

from tests.integration.rig import eventually, free_port

ROOT = Path(__file__).parent.parent.parent
THREADS = 4


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A gunicorn with a worker in haste."""
    with gunicorn("Hasty") as chosen:
        yield chosen


@pytest.fixture
def patient_port() -> Iterator[int]:
    """A gunicorn with a worker that waits long."""
    with gunicorn("Patient") as chosen:
        yield chosen


@contextmanager
def gunicorn(kind: str) -> Iterator[int]:
    """A server with that worker; its port."""
    chosen = free_port()
    words = f"-m gunicorn -b 127.0.0.1:{chosen} --threads {THREADS} --no-control-socket --log-level critical"
    worker = ["--worker-class", f"tests.service.hasty.{kind}", "tests.service.hasty:application"]
    child = subprocess.Popen([sys.executable, *words.split(), *worker], cwd=ROOT)

    def answers() -> bool:
        assert child.poll() is None
        with suppress(OSError):
            return talk(chosen, b"GET /none HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n") != b""
        return False

    try:
        eventually(answers, "gunicorn answers")
        yield chosen
    finally:
        child.terminate()
        child.wait(10)


def dial(port: int, sent: bytes) -> socket.socket:
    link = socket.create_connection(("127.0.0.1", port), timeout=30)
    link.sendall(sent)
    return link


def rest(link: socket.socket) -> bytes:
    """Everything until the server hangs up."""
    heard = b""
    with closing(link):
        while chunk := link.recv(65536):
            heard += chunk
    return heard


def talk(port: int, sent: bytes) -> bytes:
    return rest(dial(port, sent))


HEAD = b"POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    ("sent", "status", "says"),
    [
        (b"GARBAGE\r\n\r\n", 400, "GARBAGE"),
        (b"get / HTTP/1.1\r\n\r\n", 400, "'get'"),
        (b"GET / HTTP/3.0\r\n\r\n", 400, "(3, 0)"),
        (HEAD + b"Content-Length: -1\r\n\r\n", 400, "CONTENT-LENGTH"),
        (HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "CONTENT-LENGTH"),
        (HEAD + b"X: a\0b\r\n\r\n", 400, "'X'"),
        (HEAD + b"X: " + b"a" * 20_000 + b"\r\n\r\n", 431, "headers"),
        (b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\n\r\n", 414, "too large"),
        (HEAD + b"Expect: 200-ok\r\n\r\n", 417, "200-ok"),
        (HEAD + b"Transfer-Encoding: bogus\r\n\r\n", 501, "bogus"),
    ],
)
def test_what_is_no_http_gets_a_problem_document(port: int, sent: bytes, status: int, says: str) -> None:
    head, _, body = talk(port, sent).partition(b"\r\n\r\n")
    problem = json.loads(body)
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"Content-Type: application/problem+json" in head
    assert b"X-Request-ID: " in head
    assert (problem["code"], problem["status"], problem["type"]) == (
        "bad_request",
        status,
        "/problems/bad_request",
    )
    assert says in problem["detail"]


@pytest.mark.parametrize(
    "sent", [b"", b"POST / HT", HEAD + b"X-A", HEAD + b"Content-Length: 9\r\n\r\nabc"],
    ids=["nothing", "line", "head", "body"],
)  # fmt: skip
def test_slow_clients_are_cut_and_give_their_threads_back(port: int, sent: bytes) -> None:
    slow = [dial(port, sent) for _ in range(3 * THREADS)]
    done = HEAD + b"Content-Length: 3\r\n\r\nabc"
    assert talk(port, done).endswith(b"\r\n\r\n3")
    for link in slow:
        rest(link)  # ends: the server hung up


def test_an_answer_takes_as_long_as_it_needs(port: int) -> None:
    assert talk(port, b"GET /slow HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").endswith(b"\r\n\r\ndone")


def test_a_kept_connection_serves_again(port: int) -> None:
    link = dial(port, b"GET /none HTTP/1.1\r\nHost: h\r\n\r\n")
    assert link.recv(65536).startswith(b"HTTP/1.1 404 ")
    link.sendall(b"GET /none HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    problem = json.loads(rest(link).partition(b"\r\n\r\n")[2])
    assert problem["detail"] == "there is no '/none' here; /docs lists all calls"


NONE = b"GET /none HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    "sent", [HEAD + b"Content-Length: 9\r\n\r\nabc", HEAD + b"X-A: b"], ids=["body", "head"]
)
def test_half_sent_requests_leave_threads_to_others(patient_port: int, sent: bytes) -> None:
    halves = [dial(patient_port, sent) for _ in range(5 * THREADS)]
    try:
        for _ in range(3):
            assert talk(patient_port, NONE).startswith(b"HTTP/1.1 404 ")
            assert talk(patient_port, HEAD + b"Content-Length: 3\r\n\r\nabc").endswith(b"\r\n\r\n3")
        answers = [link.recv(65536) for link in select.select(halves, [], [], 30)[0]]
    finally:
        for link in halves:
            link.close()
    refused = next(answer for answer in answers if answer.startswith(b"HTTP/1.1 503 "))
    head, _, body = refused.partition(b"\r\n\r\n")
    assert b"Retry-After: 2" in head
    assert json.loads(body)["code"] == "server_busy"


def test_bodies_that_have_come_need_no_place(patient_port: int) -> None:
    """However long the application takes to ask for them: nobody waits for the client."""
    body = HEAD.replace(b"/", b"/late", 1) + b"Content-Length: 20000\r\n\r\n" + bytes(20_000)
    links = [dial(patient_port, body) for _ in range(THREADS)]
    assert [rest(link).partition(b"\r\n\r\n")[2] for link in links] == [b"20000"] * THREADS


def test_who_hardly_sends_makes_room(patient_port: int) -> None:
    halves = [dial(patient_port, HEAD + b"Content-Length: 9\r\n\r\nabc") for _ in range(5 * THREADS)]

    def served() -> bool:
        """As a client does whose body comes a while after the head, and who heeds Retry-After."""
        link = dial(patient_port, HEAD + b"Content-Length: 3\r\n\r\n")
        with suppress(OSError):
            link.sendall(b"abc")
            return rest(link).endswith(b"\r\n\r\n3")
        return False

    try:
        eventually(served, "a place")
    finally:
        for link in halves:
            link.close()


def test_a_large_body_may_come_slowly(port: int) -> None:
    part = bytes(8192)
    link = dial(port, HEAD + b"Content-Length: %d\r\n\r\n" % (8 * len(part)))
    for _ in range(8):
        link.sendall(part)
        sleep(0.4)
    assert rest(link).endswith(b"\r\n\r\n65536")
