//! What a task prints or writes is output, and nothing else.

use super::*;

/// Says everything that the stages and the worker say to each other, wherever it can be said.
const LIES: &str = r#"
lines = [
    '{"ended":{"status":{"exited":0},"passed":null,"cpu_ms":0,"peak_memory_bytes":0,"returned":{"text":"\\"forged\\""}}}',
    '"started"', '"listening"', '{"stop":{"grace_ms":0}}', '{"unconfined":{"message":"forged"}}',
    '{"not_started":{"code":0,"message":"forged"}}', '{"return_value":"forged","outcome":{"exited":{"code":0}}}',
    '{"events":[{"number":1,"kind":"state","state":"completed"}]}', '__RESULT__ "forged"', '::set-output name=result::forged',
    'cw-worker: forged',
]
text = ("\n" + "\n".join(lines) + "\n").encode()
def tell(number):
    try:
        os.write(number, text)
    except OSError:
        pass
for number in list(range(1, 256)):
    tell(number)
for number in range(256):
    try:
        opened = os.open(f"/proc/self/fd/{number}", os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        continue
    tell(opened)
    os.close(opened)
"#;

fn is_only_output(ground: &Ground, lease: &str) {
    let events = ground.peer.events(lease);
    assert!(!events.is_empty());
    for event in events.values() {
        let body: protocol::WorkerEvent = serde_json::from_value(event.clone()).unwrap();
        assert!(matches!(body.body, protocol::event::EventBody::Output { .. }), "{event}");
    }
    let reports = ground.peer.requests().iter().filter(|one| one.path.ends_with(&format!("{lease}/report"))).count();
    assert_eq!(reports, 1);
}

#[test]
fn printed_text_passes_neither_for_a_result_nor_for_an_end_or_an_event() {
    let ground = Ground::new(&[]);
    let lease = ground.send(&format!("{LIES}\nsys.exit(3)"), &[]);
    let report = ground.peer.report(&lease);
    assert_eq!(report["outcome"], json!({"exited": {"code": 3}}), "{}", ground.peer.stderr(&lease));
    assert_eq!(report["return_value"], Value::Null);
    assert!(ground.peer.stdout(&lease).contains("__RESULT__ \"forged\""), "it is output");
    is_only_output(&ground, &lease);
}

#[test]
fn a_program_that_is_killed_cannot_have_said_before_that_it_ended_well() {
    let ground = Ground::new(&[]);
    let lease = ground.send(&format!("{LIES}\nos.kill(os.getpid(), signal.SIGKILL)"), &[]);
    let report = ground.peer.report(&lease);
    assert_eq!(report["outcome"], json!({"signalled": {"signal": 9}}));
    assert_eq!(report["return_value"], Value::Null);
    is_only_output(&ground, &lease);
}

#[test]
fn what_a_handler_prints_is_not_what_it_returns() {
    let ground = Ground::new(&[]);
    let code = r#"
import os, subprocess, sys
def handler(event):
    for text in ('{"returned": "forged"}', '"forged"', '{"text": "forged"}'):
        print(text, flush=True)
        print(text, file=sys.stderr, flush=True)
        subprocess.run(["sh", "-c", f"echo '{text}'; for n in 3 4 5 6 7 8 9; do (echo '{text}' >&$n) 2>/dev/null; done"])
    return {"true": event["n"]}
"#;
    let lease = ground.peer.task(json!({"run": {"kind": "python", "code": code}, "event": {"n": 7}}));
    let report = ground.peer.report(&lease);
    assert_eq!(report["outcome"], json!({"exited": {"code": 0}}), "{}", ground.peer.stderr(&lease));
    assert_eq!(report["return_value"], json!({"true": 7}));
    assert!(ground.peer.stdout(&lease).contains("forged"));
    is_only_output(&ground, &lease);
}

#[test]
fn a_handler_that_prints_a_value_and_fails_returns_none() {
    let ground = Ground::new(&[]);
    let code = "def handler(event):\n print('{\"a\": 1}', flush=True)\n raise ValueError('no')";
    let lease = ground.peer.task(json!({"run": {"kind": "python", "code": code}, "event": {}}));
    let report = ground.peer.report(&lease);
    assert_eq!(report["outcome"], json!({"exited": {"code": 1}}));
    assert_eq!(report["return_value"], Value::Null);
}

/// Who writes to the descriptor itself goes round the bound of the wrapper.
#[test]
fn a_value_that_is_nested_too_deeply_for_a_report_fails_the_task_alone() {
    let ground = Ground::new(&[]);
    let code = r#"
import os, stat
def handler(depth):
    pipe = max(fd for fd in range(3, 64) if os.path.exists(f"/proc/self/fd/{fd}") and stat.S_ISFIFO(os.fstat(fd).st_mode))
    os.write(pipe, b"[" * depth + b"]" * depth)
    os._exit(0)
"#;
    let send = |depth: usize| ground.peer.task(json!({"run": {"kind": "python", "code": code}, "event": depth}));
    for depth in [101, 110, 127, 200_000] {
        let lease = send(depth);
        let report = ground.peer.report(&lease);
        let complaint = ground.peer.stderr(&lease);
        assert_eq!(report["outcome"], json!({"exited": {"code": 1}}), "{depth}: {complaint}");
        assert_eq!(report["return_value"], Value::Null, "{depth}");
        assert!(complaint.contains("cw-worker: the return value is"), "{depth}: {complaint}");
    }
    let report = ground.peer.report(&send(100));
    assert_eq!(report["outcome"], json!({"exited": {"code": 0}}));
}
