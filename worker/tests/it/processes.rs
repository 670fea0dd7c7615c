//! What a task's processes get, and that none of them outlives its attempt.

use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::peer::{KEY, Peer};
use crate::run::{Bench, eventually, processes, token, wait_for_processes};

/// The letter of a process's state; none when it is gone.
fn state(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether a process is gone, or only waits to be reaped.
pub(crate) fn is_dead(pid: Pid) -> bool {
    state(pid.as_raw_nonzero().get()).is_none_or(|state| state == 'Z')
}

#[test]
fn python_shell_and_command_tasks_run_to_their_exit_code() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    let python = peer.task(
        json!({"run": {"kind": "python", "code": "import sys; print(sys.argv[1:]); sys.exit(3)"}, "args": ["a b"]}),
    );
    let shell = peer.task(json!({"run": {"kind": "shell", "code": "echo $1; echo err >&2"}, "args": ["c"]}));
    let command = peer.task(json!({"run": {"kind": "command", "argv": ["printf", "%s", "$HOME"]}}));
    let report = peer.report(&python);
    assert_eq!(report["outcome"], json!({"exited": {"code": 3}}));
    assert_eq!(report["confinement"], "bwrap");
    assert!(["rusage", "cgroup"].contains(&report["usage"]["source"].as_str().unwrap()), "{report}");
    assert!(report["usage"]["peak_memory_bytes"].as_u64().unwrap() > 1 << 20, "{report}");
    assert_eq!(peer.stdout(&python), "['a b']\n");
    assert_eq!(peer.report(&shell)["written_bytes"], json!({"stdout": 2, "stderr": 4}));
    assert_eq!((peer.stdout(&shell), peer.stderr(&shell)), ("c\n".into(), "err\n".into()));
    assert_eq!(peer.report(&command)["outcome"], json!({"exited": {"code": 0}}));
    assert_eq!(peer.stdout(&command), "$HOME");
    eventually("attempts are removed", || bench.attempts() == 0);
}

#[test]
fn a_task_sees_only_its_own_environment() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    let code = "import os, json; print(json.dumps(dict(os.environ))); print(os.getcwd()); print(os.listdir('.'))";
    let lease = peer.task(
        json!({"run": {"kind": "python", "code": code}, "env": {"A": "1", "LANG": "C"}, "files": {"x/y.txt": "hi"}}),
    );
    peer.report(&lease);
    let text = peer.stdout(&lease);
    let lines: Vec<&str> = text.lines().collect();
    let env: serde_json::Map<String, serde_json::Value> = serde_json::from_str(lines[0]).unwrap();
    let mut names: Vec<&str> = env.keys().map(String::as_str).filter(|name| *name != "LC_CTYPE").collect();
    names.sort_unstable();
    let expected = "A CW_ATTEMPT CW_REPO CW_TASK_ID CW_WORKSPACE_DIR HOME LANG PATH PYTHONPATH PYTHONUNBUFFERED TMPDIR";
    assert_eq!(names.join(" "), expected);
    assert_eq!(
        (&env["A"], &env["LANG"], &env["CW_REPO"], &env["CW_ATTEMPT"]),
        (&json!("1"), &json!("C"), &json!("rhizome"), &json!("1"))
    );
    assert_eq!(env["CW_WORKSPACE_DIR"], lines[1]);
    assert_eq!(lines[2], "['x']");
    assert!(!text.contains(KEY) && !text.contains("must not be seen"));
}

#[test]
fn neither_the_key_nor_the_code_stands_in_a_command_line_or_environment() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    let secret = token();
    let code = format!(
        "# {secret}\nps=$(cat /proc/[0-9]*/cmdline /proc/$PPID/environ 2>/dev/null | tr '\\0' ' ')\necho \"$ps\""
    );
    let lease = peer.shell(&code);
    peer.report(&lease);
    let seen = String::from_utf8_lossy(&peer.output(&lease, "stdout")).into_owned();
    assert!(seen.contains("/task/main.sh"), "the test must see itself");
    assert!(!seen.contains(&secret), "the code is in a command line");
    assert!(!seen.contains(KEY), "the key is in a command line or in the supervisor's environment");
}

#[test]
fn files_are_laid_out_importable_and_stdin_is_read_to_its_end() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    let code = "import sys, helper; print(helper.N, len(sys.stdin.buffer.read())); print(open('b', 'rb').read())";
    let stdin = "x".repeat(1 << 20);
    let files = json!({"helper.py": "N = 42", "b": {"base64": "AP8="}});
    let lease = peer.task(json!({"run": {"kind": "python", "code": code}, "files": files, "stdin": stdin}));
    peer.report(&lease);
    assert_eq!(peer.stdout(&lease), "42 1048576\nb'\\x00\\xff'\n", "{}", peer.stderr(&lease));
    let unread = peer.task(json!({"run": {"kind": "command", "argv": ["true"]}, "stdin": "y".repeat(1 << 20)}));
    assert_eq!(peer.report(&unread)["outcome"], json!({"exited": {"code": 0}}));
    let empty = peer.shell("cat; echo end");
    peer.report(&empty);
    assert_eq!(peer.stdout(&empty), "end\n");
}

#[test]
fn a_program_that_cannot_be_started_ends_as_in_a_shell() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    let missing = peer.task(json!({"run": {"kind": "command", "argv": ["no-such-program-here"]}}));
    assert_eq!(peer.report(&missing)["outcome"], json!({"exited": {"code": 127}}));
    assert_eq!(peer.stderr(&missing), "cw-worker: no-such-program-here: not found\n");
    let denied = peer.task(json!({"run": {"kind": "command", "argv": ["./data"]}, "files": {"data": "x"}}));
    assert_eq!(peer.report(&denied)["outcome"], json!({"exited": {"code": 126}}));
    assert!(peer.stderr(&denied).contains("Permission denied"), "{}", peer.stderr(&denied));
}

#[test]
fn a_signal_that_the_worker_did_not_send_is_the_outcome() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    let lease = peer.shell("kill -SEGV $$");
    assert_eq!(peer.report(&lease)["outcome"], json!({"signalled": {"signal": 11}}));
}

#[test]
fn background_processes_do_not_hold_the_result_and_do_not_survive() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    let token = token();
    let begun = Instant::now();
    let lease = peer.shell(&format!(
        "sleep {token} & setsid sleep {token} & (setsid sh -c 'trap \"\" TERM HUP INT; sleep {token}; sleep {token}' &) & \
         for i in 1 2 3 4 5 6 7 8 9 10; do (sleep {token} &) ; done; echo left"
    ));
    assert_eq!(peer.report(&lease)["outcome"], json!({"exited": {"code": 0}}));
    assert_eq!(peer.stdout(&lease), "left\n");
    assert_eq!(processes(&token), [0; 0], "the report came before they were gone");
    assert!(begun.elapsed().as_secs() < 20);
}

#[test]
fn the_deadline_ends_the_whole_tree_and_keeps_the_output() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &["--grace", "300ms"]);
    let token = token();
    let code = format!(
        "trap '' TERM; echo before; setsid sh -c 'trap \"\" TERM; sleep {token}' & sleep {token}; sleep {token}"
    );
    let lease = peer.task(json!({"run": {"kind": "shell", "code": code}, "timeout_s": 1}));
    assert_eq!(peer.report(&lease)["outcome"], "timeout");
    assert_eq!(peer.stdout(&lease), "before\n");
    assert_eq!(processes(&token), [0; 0]);
}

#[test]
fn a_task_may_clean_up_within_the_grace_after_its_deadline() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    let code = "trap 'echo cleaned; exit 0' TERM; echo up; while :; do sleep 0.05; done";
    let lease = peer.task(json!({"run": {"kind": "shell", "code": code}, "timeout_s": 1}));
    assert_eq!(peer.report(&lease)["outcome"], "timeout");
    assert_eq!(peer.stdout(&lease), "up\ncleaned\n");
}

#[test]
fn silence_ends_a_task_by_its_idle_timeout_and_output_keeps_it_alive() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &[]);
    let silent = peer.task(json!({"run": {"kind": "shell", "code": "echo a; sleep 600"}, "idle_timeout_s": 1}));
    let talks = "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.25; done";
    let talking = peer.task(json!({"run": {"kind": "shell", "code": talks}, "idle_timeout_s": 1}));
    assert_eq!(peer.report(&silent)["outcome"], "idle_timeout");
    assert_eq!(peer.report(&talking)["outcome"], json!({"exited": {"code": 0}}));
}

#[test]
fn a_fork_bomb_of_daemons_is_ended_at_the_deadline() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &["--grace", "200ms"]);
    let token = token();
    // Each process leaves its session and its parent, and makes another one, as many as it may.
    let code = format!(
        "import os, sys, time\nname = '{token}'\nend = time.time() + 60\nfor _ in range(40):\n try: child = os.fork()\n except OSError: break\n if child == 0:\n  while time.time() < end:\n   os.setsid() if os.getpid() != os.getsid(0) else None\n   try:\n    if os.fork() != 0: os._exit(0)\n   except OSError: pass\n   time.sleep(0.002)\n  os._exit(0)\nos.execvp('sleep', ['sleep', name])\n"
    );
    let lease = peer.task(json!({"run": {"kind": "python", "code": code}, "timeout_s": 1}));
    assert_eq!(peer.report(&lease)["outcome"], "timeout", "{}", peer.stderr(&lease));
    assert_eq!(processes(&token), [0; 0]);
    eventually("attempts are removed", || bench.attempts() == 0);
    assert_eq!(peer.report(&peer.shell("exit 0"))["outcome"], json!({"exited": {"code": 0}}));
}

#[test]
fn killing_the_worker_leaves_no_process_behind() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let mut worker = bench.worker(&peer, &[]);
    let token = token();
    let lease =
        peer.shell(&format!("trap '' TERM; setsid sh -c 'trap \"\" TERM HUP; sleep {token}' & echo up; sleep {token}"));
    peer.wait_for_output(&lease, "up");
    eventually("they run", || processes(&token).len() >= 2);
    worker.kill();
    wait_for_processes(&token, 0);
    assert!(!peer.is_reported(&lease));
}

#[test]
fn a_task_cannot_end_or_stop_what_watches_over_it() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let worker = bench.worker(&peer, &["--grace", "300ms", "--slots", "1", "--ready", "0"]);
    let token = token();
    let code = format!("setsid sleep {token} & echo up; kill -9 $PPID; kill -STOP 1; sleep {token}");
    let begun = Instant::now();
    let late = peer.task(json!({"run": {"kind": "shell", "code": code}, "timeout_s": 1}));
    assert_eq!(peer.report(&late)["outcome"], "timeout");
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
    assert_eq!(processes(&token), [0; 0]);
    assert_eq!(worker.stages().len(), 0, "a stage is left");
    assert_eq!(peer.report(&peer.shell("exit 0"))["outcome"], json!({"exited": {"code": 0}}));
}

#[test]
fn a_stage_that_is_killed_ends_its_task_and_the_worker_goes_on() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let worker = bench.worker(&peer, &["--slots", "1", "--ready", "0"]);
    let token = token();
    let lease = peer.shell(&format!("setsid sleep {token} & echo up; sleep {token}"));
    peer.wait_for_output(&lease, "up");
    kill_process(worker.stages()[0], Signal::KILL).unwrap();
    assert_eq!(peer.report(&lease)["outcome"], json!({"signalled": {"signal": 9}}));
    assert_eq!(processes(&token), [0; 0]);
    assert!(peer.stderr(&lease).contains("watched over this task was killed"), "{}", peer.stderr(&lease));
    assert_eq!(peer.report(&peer.shell("exit 0"))["outcome"], json!({"exited": {"code": 0}}));
}

#[test]
fn a_stopped_stage_does_not_outlive_the_worker_however_it_leaves() {
    for signal in [Signal::TERM, Signal::QUIT, Signal::KILL] {
        let (bench, peer) = (Bench::new(), Peer::start());
        let mut worker = bench.worker(&peer, &["--grace", "300ms", "--ready", "0"]);
        let token = token();
        let lease = peer.shell(&format!("echo up; sleep {token}"));
        peer.wait_for_output(&lease, "up");
        let stage = worker.stages()[0];
        kill_process(stage, Signal::STOP).unwrap();
        worker.signal(signal);
        worker.exit();
        wait_for_processes(&token, 0);
        eventually("the stage is gone", || is_dead(stage));
        assert!(!peer.is_reported(&lease), "{signal:?}");
    }
}

#[test]
fn slots_run_side_by_side_and_no_more_than_there_are() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let _worker = bench.worker(&peer, &["--slots", "2"]);
    let gate = bench.gate();
    let code = format!("echo up; while ! [ -e {} ]; do sleep 0.02; done", gate.display());
    let leases = [peer.shell(&code), peer.shell(&code), peer.shell(&code)];
    peer.wait_for_output(&leases[0], "up");
    peer.wait_for_output(&leases[1], "up");
    assert!(!peer.requests().iter().any(|request| request.path.contains(&leases[2])));
    std::fs::write(&gate, "").unwrap();
    for lease in &leases {
        assert_eq!(peer.report(lease)["outcome"], json!({"exited": {"code": 0}}));
    }
}

#[test]
fn attempts_are_kept_when_asked_for() {
    let (bench, peer) = (Bench::new(), Peer::start());
    let mut worker = bench.worker(&peer, &["--once", "--keep-attempts"]);
    let lease = peer.shell("echo kept > file");
    peer.report(&lease);
    assert_eq!(worker.code(), Some(0));
    assert_eq!(bench.in_attempt("work/file").as_deref(), Some("kept\n"));
}
