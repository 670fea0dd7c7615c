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
