//! However a task's processes hold on: when the attempt is over none of them lives, and what they wrote is kept.

use serde_json::json;

use super::each_way_with;
use crate::run::{processes, token};

/// The program runs until it ends by itself or by its deadline, as said; `TOKEN` stands in the command lines.
fn leaves_nothing(code: &str, outcome: &serde_json::Value) {
    each_way_with(&["--grace", "300ms"], |world| {
        let token = token();
        let code = format!("print('before', flush=True)\n{}", code.replace("TOKEN", &token));
        // One that ends by itself has time for it, however busy the machine is.
        let timeout_s = if outcome == "timeout" { 2 } else { 20 };
        let ended = world.end(&world.begin(&code, &json!({"pids": 40}), timeout_s));
        assert_eq!(&ended.report["outcome"], outcome, "--cgroup {}: {}", world.way, ended.stderr);
        assert_eq!(processes(&token), [0; 0], "--cgroup {}", world.way);
        assert!(ended.stdout.starts_with("before\n"), "{}", ended.stdout);
        crate::run::eventually("attempts are removed", || world.bench.attempts() == 0);
    });
}

fn ok() -> serde_json::Value {
    json!({"exited": {"code": 0}})
}

#[test]
fn a_sleeper() {
    leaves_nothing("os.execvp('sleep', ['sleep', 'TOKEN'])", &json!("timeout"));
}

#[test]
fn a_daemon_that_left_twice() {
    let code = "
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for file in range(3): os.close(file)
        os.execvp('sleep', ['sleep', 'TOKEN'])
    os._exit(0)
os.wait()
";
    leaves_nothing(code, &ok());
}

#[test]
fn one_that_ignores_all_it_can() {
    let code = "
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
os.execvp('sleep', ['sleep', 'TOKEN'])
";
    leaves_nothing(code, &json!("timeout"));
}

#[test]
fn a_maker_of_zombies() {
    let code = "
for _ in range(30):
    if os.fork() == 0: os._exit(0)
os.execvp('sleep', ['sleep', 'TOKEN'])
";
    leaves_nothing(code, &json!("timeout"));
}

#[test]
fn one_that_stops_itself_and_its_siblings() {
    let code = "
children = [subprocess.Popen(['sleep', 'TOKEN']) for _ in range(3)]
for child in children: os.kill(child.pid, signal.SIGSTOP)
os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(600)
";
    leaves_nothing(code, &json!("timeout"));
}

#[test]
fn an_orphan_that_holds_the_output_open() {
    let code = "
if os.fork() == 0:
    print('held', flush=True)
    os.execvp('sleep', ['sleep', 'TOKEN'])
time.sleep(0.2)
os._exit(0)
";
    leaves_nothing(code, &ok());
}
