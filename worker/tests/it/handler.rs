//! The files that call `handler(event)`, with the real interpreters. No worker is needed: a shell gives the descriptor.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

const PYTHON: &str = "/usr/bin/python3";
const NODE: &str = "node";
/// Makes a new node tell ES modules as node 18 does: by the file's name alone.
const OLD_NODE: &str = "--no-experimental-detect-module";

struct Ran {
    code: Option<i32>,
    out: Vec<u8>,
    err: String,
    result: String,
}

impl Ran {
    fn value(&self) -> Value {
        assert_eq!(self.code, Some(0), "{}", self.err);
        serde_json::from_str(&self.result).unwrap()
    }

    /// Asserts that it failed with this text and without a result.
    fn failed(&self, text: &str) {
        assert_eq!((self.code, self.result.as_str()), (Some(1), ""), "{}", self.err);
        assert!(self.err.contains(text), "{text:?} is not in: {}", self.err);
        assert!(!self.err.contains("handler.py") && !self.err.contains("handler.cjs"), "{}", self.err);
    }
}

fn lay_out(home: &Path, code: &str) {
    for name in ["main.py", "main.js", "main.mjs"] {
        std::fs::write(home.join(name), code).unwrap();
    }
    std::fs::write(home.join("event.json"), r#"{"a":1}"#).unwrap();
    std::fs::write(home.join("handler.py"), include_str!("../../src/language/handler.py")).unwrap();
    std::fs::write(home.join("handler.cjs"), include_str!("../../src/language/handler.cjs")).unwrap();
    std::fs::write(home.join("run.cjs"), include_str!("../../src/language/run.cjs")).unwrap();
    std::fs::create_dir(home.join("work")).unwrap();
}

fn run(program: &str, wrapper: &str, code: &str, shell: &str) -> Ran {
    let home = tempfile::tempdir().unwrap();
    lay_out(home.path(), code);
    std::fs::write(home.path().join("work/near.py"), "here = True").unwrap();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", shell, program]).arg(home.path().join(wrapper)).arg("-x");
    command
        .current_dir(home.path().join("work"))
        .env("CW_RETURN_FD", "3")
        .env_remove("NODE_OPTIONS")
        .env_remove("PYTHONUNBUFFERED");
    if program == NODE && Command::new(NODE).args([OLD_NODE, "-e", ""]).output().unwrap().status.success() {
        command.env("NODE_OPTIONS", OLD_NODE);
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    let result = std::fs::read_to_string(home.path().join("result")).unwrap_or_default();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    Ran { code: output.status.code(), out: output.stdout, err, result }
}

const TO_FILE: &str = r#"exec "$0" "$@" 3>../result"#;
/// Without what an administrator lets every Python import at its start.
const ALONE: &str = r#"exec "$0" -S "$@" 3>../result"#;

fn python(code: &str) -> Ran {
    run(PYTHON, "handler.py", code, TO_FILE)
}

fn node(code: &str) -> Ran {
    run(NODE, "handler.cjs", code, TO_FILE)
}

#[test]
fn python_handlers_are_sync_async_or_return_an_awaitable() {
    for code in [
        "def handler(event): return event",
        "async def handler(event): return event",
        "async def other(event): return event\ndef handler(event): return other(event)",
        "import asyncio\nasync def other(event): return event\ndef handler(event): return asyncio.run(other(event))",
        "def handler(event, context): return {**event, **context}",
        "def handler(event, context=None): return event if context is None else 0",
        "class Call:\n  def __call__(self, event): return event\nhandler = Call()",
    ] {
        assert_eq!(python(code).value(), json!({"a": 1}), "{code}");
    }
}

#[test]
fn javascript_handlers_may_be_written_in_every_usual_way() {
    for code in [
        "exports.handler = (event) => event",
        "module.exports = { handler: async (event) => event }",
        "module.exports = async (event) => event",
        "function handler(event) { return event }",
        "async function handler(event) { return event }",
        "#!/usr/bin/env node\nconst handler = (event) => event // end",
        "export function handler(event) { return event }",
        "import fs from 'node:fs'; export default async (event) => event",
        "const one = await 1; export const handler = (event) => ({ a: one })",
        "const text = `\nimport x from 'y'\n`; exports.handler = (event) => event",
    ] {
        assert_eq!(node(code).value(), json!({"a": 1}), "{code}");
    }
}

#[test]
fn python_values_become_json_at_any_depth() {
    let code =
        r#"def handler(event): return {1: float("nan"), None: [(1, float("-inf")), {2}], "u": "\ud800 \ud83d\ude00"}"#;
    let value = python(code).value();
    assert_eq!(value, json!({"1": null, "null": [[1, null], [2]], "u": "\u{fffd} \u{1f600}"}));
    assert_eq!(python("def handler(event): return float('nan')").value(), Value::Null);
}

#[test]
fn javascript_values_become_json_at_any_depth() {
    let code =
        r#"exports.handler = () => ({n: [NaN, [1/0]], s: new Set([1]), u: undefined, t: "\ud800 \\ud800 \u{1f600}"})"#;
    assert_eq!(node(code).value(), json!({"n": [null, [null]], "s": [1], "t": "\u{fffd} \\ud800 \u{1f600}"}));
    assert_eq!(node("exports.handler = () => {}").value(), Value::Null);
}

#[test]
fn what_is_not_json_is_told_in_clear_words() {
    let words = "handler returned something that is not JSON: ";
    for (code, what) in [
        ("def handler(event): return b''", "bytes"),
        ("def handler(event): return {'a': [object()]}", "object at ['a'][0]"),
        ("def handler(event):\n  a = []\n  a.append(a)\n  return a", "a list that contains itself"),
        ("def handler(event):\n  a = []\n  for _ in range(9999): a = [a]\n  return a", "it is nested too deeply"),
        ("async def handler(event): yield 1", "async_generator (handler yields"),
    ] {
        python(code).failed(&format!("{words}{what}"));
    }
    for (code, what) in [
        ("exports.handler = () => 10n", "a BigInt (10)"),
        ("exports.handler = () => Buffer.from('a')", "bytes"),
        ("exports.handler = () => { const a = {}; a.a = a; return a }", "an object that contains itself"),
        ("exports.handler = () => { let a = []; for (let i = 0; i < 9999; i++) a = [a]; return a }", "it is nested"),
        ("exports.handler = async function* () { yield 1 }", "a generator (handler yields"),
        ("exports.handler = () => [Promise.resolve(1)]", "a promise that was not awaited"),
    ] {
        node(code).failed(&format!("{words}{what}"));
    }
}

#[test]
fn a_missing_handler_is_named_and_so_is_one_that_cannot_be_called() {
    python("x = 1").failed("main.py defines no handler(event)");
    python("handler = {}").failed("main.py: handler is not callable: it is of type dict");
    node("1").failed("main.js defines no handler(event)");
    node("exports.handler = {}").failed("main.js: handler is not callable: it is of type object");
    node("exports.handler = () => new Promise(() => {})").failed("handler(event) never ended");
}

#[test]
fn errors_show_the_tasks_file_and_line_and_nothing_of_ours() {
    python("\ndef handler(event:").failed("main.py\", line 2");
    python("\nasync def handler(event):\n  raise ValueError('boo')").failed("main.py\", line 3, in handler");
    node("let a;\nlet b = ;").failed("main.js:2");
    node("import a from 'node:fs';\nlet b = ;").failed("main.mjs:2");
    node("\nexports.handler = () => { throw new RangeError('boo') }").failed("main.js:2:33");
    node("exports.handler = () => JSON.parse('{')").failed("SyntaxError");
    let late = node("exports.handler = () => { Promise.reject(new Error('late')); return 1 }");
    assert!(late.code == Some(1) && late.err.contains("Error: late"), "{}", late.err);
}

#[test]
fn the_tasks_own_exit_code_stands() {
    assert_eq!(python("import sys\nasync def handler(event): sys.exit(5)").code, Some(5));
    assert_eq!(python("import os\ndef handler(event): os._exit(6)").code, Some(6));
    assert_eq!(node("exports.handler = () => process.exit(7)").code, Some(7));
}

#[test]
fn printed_text_is_output_even_when_it_is_binary() {
    let ran = python("import os\ndef handler(event):\n  print('{}')\n  os.write(1, b'\\xff\\0')\n  return 1");
    assert!(ran.value() == 1 && ran.out == b"\xff\0{}\n", "{:?}", ran.out);
    let ran = node("exports.handler = () => { process.stdout.write(Buffer.from([255, 0])); return 1 }");
    assert!(ran.value() == 1 && ran.out == b"\xff\0", "{:?}", ran.out);
}

#[test]
fn the_code_is_no_main_module_and_has_its_own_arguments_and_path() {
    let code = "import sys, near\ndef handler(event): return [__name__, sys.argv[0][-7:], sys.argv[1:], near.here]";
    assert_eq!(python(code).value(), json!(["main", "main.py", ["-x"], true]));
    let code = "exports.handler = () => [typeof require.main, process.argv[1].slice(-7), process.argv.slice(2)]";
    assert_eq!(node(code).value(), json!(["undefined", "main.js", ["-x"]]));
}

#[test]
fn what_the_top_queues_runs_in_the_same_order_in_both_kinds_of_javascript() {
    let top = "const seen = []; process.nextTick(() => seen.push('tick')); queueMicrotask(() => seen.push('micro'));";
    let handler = "() => new Promise((settle) => setTimeout(() => settle(seen)))";
    for export in ["exports.handler =", "export const handler ="] {
        assert_eq!(node(&format!("{top} {export} {handler}")).value(), json!(["micro", "tick"]), "{export}");
    }
}

#[test]
fn python_is_as_lean_as_it_starts_until_the_task_imports_more() {
    let code = "import sys\ndef handler(event):\n  costly = 'json', 're', 'collections', 'asyncio', 'inspect'\n  \
                return [name for name in costly if name in sys.modules]";
    assert_eq!(run(PYTHON, "handler.py", code, ALONE).value(), json!([]));
}

#[test]
fn functions_can_be_pickled_for_spawned_processes() {
    let code = "import multiprocessing\ndef twice(x): return 2 * x\ndef handler(event):\n  \
                with multiprocessing.get_context('spawn').Pool(1) as pool: return pool.map(twice, [1, 2])";
    assert_eq!(python(code).value(), json!([2, 4]));
}

#[test]
fn children_do_not_hold_the_descriptor_and_forks_write_no_result() {
    let look = r#"for fd in /proc/self/fd/*; do readlink $fd; done; echo "<$CW_RETURN_FD>""#;
    let code = format!(
        "import os, subprocess\ndef handler(event):\n  if os.fork() == 0: return 'fork'\n  os.wait()\n  \
         return subprocess.run({look:?}, shell=True, close_fds=False, capture_output=True, text=True).stdout"
    );
    let in_python = python(&code).value();
    let in_node =
        node(&format!("exports.handler = () => require('child_process').execSync({look:?}).toString()")).value();
    for seen in [in_python, in_node] {
        let seen = seen.as_str().unwrap();
        assert!(seen.contains("<>") && !seen.contains("/result"), "{seen}");
    }
}

#[test]
fn threads_that_are_no_daemons_delay_the_end() {
    let code = "import threading, time\ndef late():\n  time.sleep(0.3)\n  print('late')\n\
                def handler(event):\n  threading.Thread(target=late).start()\n  return 1";
    let ran = python(code);
    assert!(ran.value() == 1 && ran.out == b"late\n");
}

#[test]
fn large_code_and_large_results_pass_in_full() {
    let pipe = r#"exec "$0" "$@" 3>&1 >/dev/null"#;
    let (hash, slash) = (format!("#{}\n", "x".repeat(1 << 20)), format!("//{}\n", "x".repeat(1 << 20)));
    let python = run(PYTHON, "handler.py", &(hash + "def handler(event): return 'y' * (5 << 20)"), pipe);
    let node = run(NODE, "handler.cjs", &(slash + "exports.handler = () => 'y'.repeat(5 << 20)"), pipe);
    for ran in [python, node] {
        assert_eq!((ran.code, ran.out.len()), (Some(0), (5 << 20) + 2), "{}", ran.err);
    }
}

#[test]
fn a_reader_that_gave_up_is_told_about() {
    let pipe = r#"{ "$0" "$@" 3>&1 >/dev/null; echo $? >../result; } | head -c 10 >/dev/null"#;
    let python = run(PYTHON, "handler.py", "def handler(event): return 'y' * (5 << 20)", pipe);
    let node = run(NODE, "handler.cjs", "exports.handler = () => 'y'.repeat(5 << 20)", pipe);
    for ran in [python, node] {
        assert_eq!(ran.result, "1\n");
        assert_eq!(ran.err, "handler's return value was not taken: it is larger than a result may be\n");
    }
}

#[test]
fn plain_javascript_runs_as_if_node_had_been_typed() {
    for (code, out) in [
        ("console.log(require.main === module, process.argv.slice(2))", "true [ '-x' ]\n"),
        ("import fs from 'node:fs'\nconsole.log(typeof fs.readFileSync, process.argv[2])", "function -x\n"),
        ("console.log(await 5)", "5\n"),
    ] {
        let ran = run(NODE, "run.cjs", code, TO_FILE);
        assert_eq!((ran.code, String::from_utf8(ran.out).unwrap().as_str()), (Some(0), out), "{}", ran.err);
    }
    assert_eq!(run(NODE, "run.cjs", "process.exitCode = 3", TO_FILE).code, Some(3));
    let wrong = run(NODE, "run.cjs", "let a;\nlet b = ;", TO_FILE);
    assert!(wrong.code == Some(1) && wrong.err.contains("main.js:2"), "{}", wrong.err);
}
