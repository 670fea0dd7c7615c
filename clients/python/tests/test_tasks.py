"""Tasks by the real coordinator and worker. Names are claims."""

from __future__ import annotations

import uuid

import pytest

from code_workers import Client, Conflict, Invalid, NotFound, Refused, Session, TaskNotRun, Unauthorized, WaitRanOut
from tests.conftest import REPO


def test_python_gives_its_streams_and_exit_code(client: Client) -> None:
    code = "import os, sys; print(os.environ['WHO']); print('no', file=sys.stderr); sys.exit(3)"
    assert client.run_python(code, {"WHO": "you"}) == ("you\n", "no\n", 3)


def test_long_output_comes_whole(client: Client) -> None:
    stdout, _, code = client.run_python("print('x' * 3_000_000)")
    assert (len(stdout), code) == (3_000_001, 0)


def test_timeout_and_signal_look_as_a_shell_says_them(client: Client) -> None:
    assert client.run_shell("sleep 60", timeout_s=1).exit_code == 124
    assert client.run_python("import os; os.kill(os.getpid(), 15)").exit_code == 128 + 15


def test_cancelled_task_has_no_exit_code(client: Client) -> None:
    task = client.tasks.submit(REPO, {"kind": "shell", "code": "sleep 60"})
    client.tasks.cancel(task.id)
    done = client.tasks.wait(task.id, timeout_s=30)
    assert done.state == "cancelled"
    with pytest.raises(TaskNotRun, match="cancelled"):
        client.ran(done)


def test_wait_runs_out_and_the_task_goes_on(client: Client) -> None:
    task = client.tasks.submit(REPO, {"kind": "shell", "code": "sleep 3"})
    with pytest.raises(WaitRanOut):
        client.tasks.wait(task.id, timeout_s=0.2)
    assert client.tasks.wait(task.id, timeout_s=30).state == "completed"


def test_same_idempotency_key_is_one_task(client: Client) -> None:
    key = str(uuid.uuid4())
    run = {"kind": "python", "code": "print(1)"}
    first = client.tasks.submit(REPO, run, idempotency_key=key)
    assert client.tasks.submit(REPO, run, idempotency_key=key).id == first.id
    with pytest.raises(Invalid) as refused:
        client.tasks.submit(REPO, {**run, "code": "print(2)"}, idempotency_key=key)
    assert refused.value.code == "idempotency_mismatch"


def test_events_come_in_order_to_the_last_state(client: Client) -> None:
    task = client.tasks.submit(REPO, {"kind": "shell", "code": "echo one; sleep 0.2; echo two"})
    events = list(client.tasks.events(task.id))
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert "".join(event.data["text"] for event in events if event.type == "output") == "one\ntwo\n"
    assert (events[-1].type, events[-1].data["state"]) == ("state", "completed")
    assert list(client.tasks.events(task.id, after=events[-2].number)) == events[-1:]


def test_artifacts_are_listed_and_read(client: Client) -> None:
    task = client.tasks.submit(REPO, {"kind": "shell", "code": "echo hi > 'a b.txt'"})
    result = client.tasks.wait(task.id).result
    assert result is not None
    assert [(one.path, one.size) for one in result.artifacts] == [("a b.txt", 3)]
    assert client.tasks.artifact(task.id, "a b.txt") == b"hi\n"


def test_tasks_are_listed_by_label_over_pages(client: Client) -> None:
    label = uuid.uuid4().hex
    run = {"kind": "shell", "code": "true"}
    made = [client.tasks.submit(REPO, run, labels={"set": label}).id for _ in range(55)]
    assert [task.id for task in client.tasks.list(label=f"set={label}")] == made[::-1]
    assert client.tasks.why(made[0]).summary


def test_refusals_carry_code_detail_and_request_id(client: Client, coordinator: tuple[str, str]) -> None:
    with pytest.raises(NotFound) as missing:
        client.tasks.get("task_01m7v5yh4tnjeh6e0a6vyjd8p9")
    assert missing.value.code == "not_found"
    assert missing.value.detail and missing.value.request_id.startswith("req_")
    with pytest.raises(Invalid) as wrong:
        client.tasks.submit(REPO, {"kind": "python", "code": "1"}, colour="red")
    assert "colour" in str(wrong.value)
    with Client(coordinator[0], "cwk_" + "0" * 64) as stranger, pytest.raises(Unauthorized):
        list(stranger.tasks.list())
    done = client.tasks.wait(client.tasks.submit(REPO, {"kind": "shell", "code": "true"}).id)
    with pytest.raises(Conflict) as late:
        client.tasks.cancel(done.id)
    assert late.value.code == "already_done"
    assert isinstance(late.value, Refused)


def test_operators_see_workers_keys_and_repos(client: Client) -> None:
    assert client.version().protocol == 1
    worker = next(client.admin.workers())
    assert worker.repos == [REPO] and "session" in worker.runs
    key = client.admin.create_key("client", repos=[REPO], name="reader", ttl_s=60)
    assert key.key is not None and key.key not in repr(key)
    assert client.admin.revoke_key(key.id).revoked_at is not None
    assert key.id in [one.id for one in client.admin.keys()]
    assert client.admin.change_repo("elsewhere", paused=True).paused
    assert client.admin.repo("elsewhere").paused
    assert "elsewhere" in [one.repo for one in client.admin.repos()]


def test_exec_answers_what_the_command_wrote(session: Session) -> None:
    session.files.write("a/b.txt", "hello")
    done = session.exec("cat b.txt; exit 4", cwd="a", repo=REPO)
    assert (done.stdout, done.exit_code, done.timed_out) == ("hello", 4, False)
