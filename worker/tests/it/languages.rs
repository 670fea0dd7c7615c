//! Python, JavaScript and shell behind the walls: what a handler gives back, and what its report says when it cannot.

use serde_json::{Value, json};

use crate::peer::Peer;
use crate::run::{Bench, Running};

/// The largest value that is kept.
const CAP: usize = 512 << 10;

struct Place {
    _bench: Bench,
    peer: Peer,
    _worker: Running,
}

impl Place {
    fn new() -> Self {
        let (bench, peer) = (Bench::new(), Peer::start());
        let worker = bench.worker(&peer, &[]);
        Self { _bench: bench, peer, _worker: worker }
    }

    /// Calls a handler to its report.
    fn call(&self, kind: &str, code: &str) -> Called {
        self.run(json!({"run": {"kind": kind, "code": code}, "event": {"a": 1}}))
    }

    fn run(&self, spec: Value) -> Called {
        let lease = self.peer.task(spec);
        let report = self.peer.report(&lease);
        Called { report, out: self.peer.output(&lease, "stdout"), err: self.peer.stderr(&lease) }
    }
}

#[derive(Debug)]
struct Called {
    report: Value,
    out: Vec<u8>,
    err: String,
}

impl Called {
    fn value(&self) -> &Value {
        assert_eq!(self.report["outcome"], json!({"exited": {"code": 0}}), "{}", self.err);
        &self.report["return_value"]
    }

    /// Asserts that it ended with code 1 and no value, and said this.
    fn failed(&self, text: &str) {
        assert_eq!(self.report["outcome"], json!({"exited": {"code": 1}}), "{self:?}");
        assert_eq!(self.report["return_value"], Value::Null, "{self:?}");
        assert!(self.err.contains(text), "{text:?} is not in: {}", self.err);
    }
}

#[test]
fn sync_and_async_handlers_hand_their_value_back_past_what_they_print() {
    let place = Place::new();
    for (kind, code) in [
        ("python", "def handler(event):\n  print('{\"a\": 2}')\n  return event"),
        (
            "python",
            "import asyncio\nasync def handler(event):\n  await asyncio.sleep(0)\n  print('{\"a\": 2}')\n  return event",
        ),
        ("javascript", "exports.handler = (event) => { console.log('{\"a\": 2}'); return event }"),
        ("javascript", "export async function handler(event) { await null; console.log('{\"a\": 2}'); return event }"),
    ] {
        let called = place.call(kind, code);
        assert_eq!(called.value(), &json!({"a": 1}), "{code}");
        assert_eq!(called.out, b"{\"a\": 2}\n", "{code}");
    }
}

#[test]
fn nan_and_the_infinities_become_null() {
    let place = Place::new();
    let python =
        place.call("python", "def handler(event): return [float('nan'), {'x': float('inf')}, -float('inf'), 0.5]");
    let node = place.call("javascript", "exports.handler = () => [NaN, {x: Infinity}, -Infinity, 0.5]");
    for called in [python, node] {
        assert_eq!(called.value(), &json!([null, {"x": null}, null, 0.5]));
    }
}

/// The pipe takes 64 KiB; who writes more goes on only because somebody reads.
#[test]
fn a_value_larger_than_a_pipe_is_read_while_the_handler_runs() {
    let place = Place::new();
    let length = CAP - 2; // with its quotes it is just as large as it may be
    let python = place.call("python", &format!("def handler(event): return 'y' * {length}"));
    let node = place.call("javascript", &format!("exports.handler = () => 'y'.repeat({length})"));
    for called in [python, node] {
        assert_eq!(called.value().as_str().map(str::len), Some(length));
    }
}

#[test]
fn a_value_over_the_cap_fails_the_task_in_clear_words() {
    let place = Place::new();
    let length = CAP - 1;
    let python = place.call("python", &format!("def handler(event): return 'y' * {length}"));
    let node = place.call("javascript", &format!("exports.handler = () => 'y'.repeat({length})"));
    for called in [python, node] {
        called.failed(&format!("the return value is over {CAP} bytes"));
    }
}

/// Finds the descriptor, which no variable names any more.
const FIND: &str = "import os
look = lambda fd: os.path.exists(f'/proc/self/fd/{fd}') and os.readlink(f'/proc/self/fd/{fd}')
fd = next(fd for fd in range(3, 64) if str(look(fd)).startswith('pipe:'))
";

/// The descriptor is the task's own: whatever it writes there is judged like a value, and never trusted to be one.
#[test]
fn what_a_task_writes_to_the_descriptor_itself_is_json_or_nothing() {
    let place = Place::new();
    let write = |text: &str, code: u8| {
        let text = format!("{FIND}os.write(fd, b'{text}')\nos._exit({code})");
        place.call("python", &text)
    };
    assert_eq!(write("[1]", 0).value(), &json!([1]));
    write("[1] and more", 0).failed("the return value is not JSON");
    write("\\xff", 0).failed("the return value is not JSON");
    let failed = write("[1]", 3);
    assert_eq!(failed.report["outcome"], json!({"exited": {"code": 3}}));
    assert_eq!(failed.report["return_value"], Value::Null, "a task that failed returns nothing");
}

#[test]
fn errors_name_the_tasks_own_file_and_line() {
    let place = Place::new();
    for (kind, code, place_of_error, what) in [
        ("python", "x = 1\ndef handler(event:\n  pass", "/task/main.py\", line 2", "SyntaxError"),
        (
            "python",
            "\ndef handler(event):\n  return nothing_of_that_name",
            "/task/main.py\", line 3, in handler",
            "NameError",
        ),
        ("javascript", "let a = 1;\nlet b = ;", "/task/main.js:2", "SyntaxError"),
        ("javascript", "export const a = 1;\nlet b = ;", "/task/main.mjs:2", "SyntaxError"),
        ("javascript", "\nexports.handler = () => nothingOfThatName", "/task/main.js:2:", "ReferenceError"),
    ] {
        let called = place.call(kind, code);
        called.failed(place_of_error);
        called.failed(what);
        assert!(!called.err.contains("handler.py") && !called.err.contains("handler.cjs"), "{}", called.err);
    }
    let shell = place.run(json!({"run": {"kind": "shell", "code": "true\nif then"}}));
    assert_eq!(shell.report["outcome"], json!({"exited": {"code": 2}}));
    assert!(shell.err.contains("/task/main.sh: line 2: syntax error"), "{}", shell.err);
}

#[test]
fn a_missing_handler_is_a_clear_failure() {
    let place = Place::new();
    place.call("python", "print('no handler here')").failed("main.py defines no handler(event)");
    place.call("javascript", "console.log('no handler here')").failed("main.js defines no handler(event)");
}

#[test]
fn a_mebibyte_of_code_runs_in_every_language() {
    let place = Place::new();
    let filled = |comment: &str, code: &str| {
        let line = format!("{comment}{}\n", "x".repeat((1 << 20) - comment.len() - code.len() - 1));
        line + code
    };
    for (kind, code) in [
        ("python", filled("#", "print('all of it')")),
        ("javascript", filled("//", "console.log('all of it')")),
        ("shell", filled("#", "echo 'all of it'")),
    ] {
        assert_eq!(code.len(), 1 << 20);
        let ran = place.run(json!({"run": {"kind": kind, "code": code}}));
        assert_eq!(
            (&ran.report["outcome"], &ran.out[..]),
            (&json!({"exited": {"code": 0}}), &b"all of it\n"[..]),
            "{}",
            ran.err
        );
    }
    let python = filled("#", "def handler(event): return event");
    assert_eq!(place.call("python", &python).value(), &json!({"a": 1}));
    let node = filled("//", "exports.handler = (event) => event");
    assert_eq!(place.call("javascript", &node).value(), &json!({"a": 1}));
}

#[test]
fn files_are_there_before_any_line_of_code_runs() {
    let place = Place::new();
    let files = json!({"near.py": "HERE = 'near'", "near.js": "exports.here = 'near'", "deep/data.txt": "near"});
    for (kind, code) in [
        (
            "python",
            "from near import HERE\nseen = [HERE, open('deep/data.txt').read()]\ndef handler(event): return seen",
        ),
        (
            "javascript",
            "const seen = [require('near').here, require('fs').readFileSync('deep/data.txt', 'utf8')]\nexports.handler = () => seen",
        ),
    ] {
        let called = place.run(json!({"run": {"kind": kind, "code": code}, "event": null, "files": files}));
        assert_eq!(called.report["outcome"], json!({"exited": {"code": 0}}), "{}", called.err);
        let called = place.run(json!({"run": {"kind": kind, "code": code}, "event": {}, "files": files}));
        assert_eq!(called.value(), &json!(["near", "near"]));
    }
    let shell = place.run(json!({"run": {"kind": "shell", "code": "cat deep/data.txt"}, "files": files}));
    assert_eq!(shell.out, b"near");
}

#[test]
fn binary_output_does_not_touch_the_value() {
    let place = Place::new();
    let python = "import os\ndef handler(event):\n  os.write(1, bytes(range(256)))\n  return 'ä'";
    let node = "exports.handler = () => { process.stdout.write(Buffer.from(Array.from({length: 256}, (_, n) => n))); return 'ä' }";
    let all: Vec<u8> = (0..=255).collect();
    for called in [place.call("python", python), place.call("javascript", node)] {
        assert_eq!((called.value(), &called.out), (&json!("ä"), &all));
    }
}

#[test]
fn every_language_has_the_context_variables_and_none_of_the_workers() {
    let place = Place::new();
    let python = "import json, os; print(json.dumps(dict(os.environ)))";
    let node = "console.log(JSON.stringify(process.env))";
    let shell = "python3 -c 'import json, os; print(json.dumps(dict(os.environ)))'";
    for (kind, code) in [("python", python), ("javascript", node), ("shell", shell)] {
        let ran = place.run(json!({"run": {"kind": kind, "code": code}, "env": {"MINE": "1"}}));
        let env: serde_json::Map<String, Value> = serde_json::from_slice(&ran.out).unwrap();
        for (name, value) in [
            ("MINE", "1"),
            ("CW_REPO", "rhizome"),
            ("CW_ATTEMPT", "1"),
            ("CW_WORKSPACE_DIR", "/workspace"),
            ("HOME", "/home/task"),
        ] {
            assert_eq!(env[name], value, "{kind}: {env:?}");
        }
        assert!(env["CW_TASK_ID"].as_str().unwrap().starts_with("task_") && env.contains_key("PATH"), "{env:?}");
        let ours = ["CW_COORDINATOR", "CW_KEY_FILE", "CW_STATE_DIR", "SECRET_OF_THE_HOST", "CW_RETURN_FD"];
        assert!(!ours.iter().any(|name| env.contains_key(*name)), "{kind}: {env:?}");
    }
}
