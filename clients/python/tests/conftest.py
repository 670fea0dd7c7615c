"""The real coordinator and worker, once for all tests. `CW_BIN` is the directory of their binaries."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from code_workers import Client, Session

REPO = "rhizome"
T = TypeVar("T")


def binary(name: str) -> str:
    """The program's path: `CW_COORDINATOR_BIN`, `CW_WORKER_BIN`, else in `CW_BIN`, else the debug build of this checkout."""
    variable = f"{name.removeprefix('cw-').upper()}_BIN"
    built = os.environ.get("CW_BIN") or str(Path(__file__).parents[3] / "target/debug")
    path = os.environ.get(f"CW_{variable}") or f"{built}/{name}"
    if not os.access(path, os.X_OK):
        pytest.exit(f"{path} is missing: cargo build --workspace --bins, or say where it is by CW_{variable}", 2)
    return path


def eventually(look: Callable[[], T | None]) -> T:
    """Waits for something to be there."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if (found := look()) is not None:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come within 30 s")


class Program:
    """A program of the product, with an environment of its own; its log is kept for a failure's report."""

    def __init__(self, home: Path, name: str, *words: str, **variables: str) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.log = home / "log"
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), **variables}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([binary(name), *words], env=environment, stdout=log, stderr=log)

    def stop(self) -> None:
        """Ends it and waits."""
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="session")
def coordinator() -> Iterator[tuple[str, str]]:
    """A coordinator's address and its admin key; a worker serves `REPO`."""
    with tempfile.TemporaryDirectory(prefix="cw-python-", ignore_cleanup_errors=True) as directory:
        # A worker that root runs starts tasks as other users, who come through here.
        home = Path(directory)
        home.chmod(0o755)
        state = home / "coordinator"
        utils = home / "utils"
        utils.mkdir()
        (utils / "greet.py").write_text("def greet():\n    return 'hello'\n")
        serving = Program(
            home / "c",
            "cw-coordinator",
            CW_STATE_DIR=str(state),
            CW_LISTEN="127.0.0.1:0",
            CW_WORKER_LISTEN="none",
            CW_UTILS_DIR=str(utils),
        )
        try:
            address = f"http://{eventually(lambda: _listens(state))}"
            key = (state / "admin.key").read_text().strip()
            with Client(address, key) as admin:
                yield from _with_worker(home, admin, address, key)
        finally:
            serving.stop()


def _with_worker(home: Path, admin: Client, address: str, key: str) -> Iterator[tuple[str, str]]:
    worker_key = home / "worker.key"
    worker_key.touch(0o600)
    worker_key.write_text(admin.admin.create_key("worker", repos=[REPO]).key or "")
    working = Program(
        home / "w",
        "cw-worker",
        "run",
        CW_COORDINATOR=address,
        CW_KEY_FILE=str(worker_key),
        CW_REPO=REPO,
        CW_STATE_DIR=str(home / "worker"),
    )
    try:
        worker = eventually(lambda: next(admin.admin.workers(), None))
        if "session" not in worker.runs:
            pytest.exit(f"{binary('cw-worker')} runs no tasks of sessions: build it anew", 2)
        yield address, key
    finally:
        working.stop()


def _listens(state: Path) -> str | None:
    try:
        found = json.loads((state / "coordinator.json").read_text())
        return str(found["listen"]) if (state / "admin.key").exists() else None
    except (FileNotFoundError, ValueError):
        return None


@pytest.fixture(scope="session")
def client(coordinator: tuple[str, str]) -> Iterator[Client]:
    """A client of that coordinator, with the admin's key."""
    with Client(*coordinator, repo=REPO) as client:
        yield client


@pytest.fixture
def session(client: Client) -> Session:
    """A session that nobody used."""
    return client.session(f"s-{uuid.uuid4().hex[:12]}")
