use protocol::{LeaseId, TaskId};
use serde_json::json;

use super::*;
use crate::config::{CgroupUse, LevelUse};
use crate::directory::Place;

fn plan(spec: serde_json::Value) -> (Program, Directory, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let grant = LeaseGrant {
        lease: LeaseId::new(1, 1),
        task: TaskId::new(1, 2),
        repo: "r".parse().unwrap(),
        attempt: 2,
        ttl_s: 10,
        spec: serde_json::value::to_raw_value(&spec).unwrap(),
    };
    let spec: Spec = serde_json::from_value(spec).unwrap();
    let init = home.path().join("init");
    std::fs::write(&init, "").unwrap();
    let place = Place { attempts: home.path(), init: &init, owner: None, is_mounted: true };
    let directory = Directory::create(&place).unwrap();
    let tools =
        Tools { python: Some("/opt/python".into()), node: Some("/opt/node".into()), shell: Some("/bin/sh".into()) };
    (tools.program(&grant, &spec, &directory).unwrap(), directory, home)
}

#[test]
fn code_is_a_file_beside_the_working_directory() {
    let (plan, directory, _home) =
        plan(json!({"repo": "r", "run": {"kind": "python", "code": "print(1)"}, "args": ["-x"]}));
    let code = directory.path().join("task/main.py");
    assert_eq!(plan.argv, ["/opt/python", "/task/main.py", "-x"]);
    assert_eq!(std::fs::read_to_string(code).unwrap(), "print(1)");
    assert!(!plan.returns, "only a handler returns something");
    assert_eq!(plan.env["CW_ATTEMPT"], "2");
}

#[test]
fn the_specs_variables_stand_beside_the_workers_own() {
    let env = json!({"LANG": "de_DE", "PYTHONPATH": "/lib", "X": ""});
    let (plan, _directory, _home) = plan(json!({"repo": "r", "run": {"kind": "python", "code": "1"}, "env": env}));
    assert_eq!((plan.env["LANG"].as_str(), plan.env["X"].as_str()), ("de_DE", ""));
    assert_eq!(plan.env["PYTHONPATH"], "/workspace:/lib");
    assert_eq!(plan.env["HOME"], "/home/task");
    assert_eq!(plan.env.get("CW_SESSION"), None);
}

#[test]
fn a_command_is_taken_as_it_is() {
    let (plan, _directory, _home) =
        plan(json!({"repo": "r", "run": {"kind": "command", "argv": ["a", "b c"]}, "args": ["d"]}));
    assert_eq!(plan.argv, ["a", "b c", "d"]);
    assert!(!plan.env.contains_key("PYTHONPATH"));
}

#[test]
fn a_python_handler_is_called_by_the_file_beside_the_code() {
    let run = json!({"kind": "python", "code": "def handler(event): pass"});
    let (plan, directory, _home) = plan(json!({"repo": "r", "run": run, "event": {"a": 1}, "args": ["-x"]}));
    let file = |name: &str| directory.path().join("task").join(name);
    assert_eq!(plan.argv, ["/opt/python", "/task/handler.py", "-x"]);
    assert_eq!(std::fs::read_to_string(file("handler.py")).unwrap(), PYTHON_HANDLER);
    assert_eq!(std::fs::read_to_string(file("main.py")).unwrap(), "def handler(event): pass");
    assert_eq!(std::fs::read_to_string(file("event.json")).unwrap(), r#"{"a":1}"#);
}

#[test]
fn javascript_is_there_under_both_names_and_node_chooses() {
    let (plan, directory, _home) =
        plan(json!({"repo": "r", "run": {"kind": "javascript", "code": "1"}, "args": ["-x"]}));
    let file = |name: &str| directory.path().join("task").join(name);
    assert_eq!(plan.argv, ["/opt/node", "/task/run.cjs", "-x"]);
    for name in ["main.js", "main.mjs"] {
        assert_eq!(std::fs::read_to_string(file(name)).unwrap(), "1");
    }
    assert!(!file("event.json").exists());
    assert_eq!(plan.env["NODE_PATH"], "/workspace/node_modules:/workspace");
    assert!(!plan.env.contains_key("PYTHONPATH"));
}

#[test]
fn a_javascript_handler_is_called_by_the_file_beside_the_code() {
    let run = json!({"kind": "javascript", "code": "1"});
    let (plan, directory, _home) = plan(json!({"repo": "r", "run": run, "event": [1], "args": ["-x"]}));
    let file = |name: &str| directory.path().join("task").join(name);
    assert_eq!(plan.argv, ["/opt/node", "/task/handler.cjs", "-x"]);
    assert!(file("run.cjs").exists() && file("main.js").exists() && file("main.mjs").exists());
    assert_eq!(std::fs::read_to_string(file("event.json")).unwrap(), "[1]");
}

#[test]
fn only_what_is_there_is_offered() {
    assert_eq!(Tools::default().words(), ["command"]);
    let shell = Tools { shell: Some("/bin/sh".into()), ..Tools::default() };
    assert_eq!(shell.words(), ["shell", "command"]);
    let node = Tools { node: Some("/bin/node".into()), ..Tools::default() };
    assert_eq!(node.words(), ["javascript", "command", "handler"]);
}

fn found(python: Option<&Path>, node: Option<&Path>, ro_mounts: &[&Path]) -> Result<Tools, String> {
    let walls = Walls {
        state_dir: PathBuf::new(),
        python: python.map(Path::to_path_buf),
        node: node.map(Path::to_path_buf),
        ro_mounts: ro_mounts.iter().map(|path| path.to_path_buf()).collect(),
        cgroup: CgroupUse::Off,
        confinement: LevelUse::Auto,
        task_uid: 1,
    };
    Tools::find(&walls).map_err(|error| format!("{error:#}"))
}

#[test]
fn what_was_asked_for_must_be_a_program() {
    let not_a_program = Some(Path::new("/etc/passwd"));
    assert!(found(not_a_program, None, &[]).is_err() && found(None, not_a_program, &[]).is_err());
}

#[test]
fn what_was_asked_for_must_be_where_tasks_see_it_and_so_must_what_it_links_to() {
    let (shown, hidden) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = |directory: &Path, name: &str, to: &Path| {
        std::os::unix::fs::symlink(to, directory.join(name)).unwrap();
        directory.join(name)
    };
    let own = hidden.path().join("own");
    std::fs::copy("/bin/true", &own).unwrap();
    let (to_system, to_hidden) =
        (program(shown.path(), "python3", Path::new("/bin/true")), program(shown.path(), "python4", &own));
    assert!(found(Some(&to_system), None, &[shown.path()]).is_ok());
    for unseen in [&to_hidden, &own] {
        let why = found(Some(unseen), None, &[shown.path()]).unwrap_err();
        assert!(why.contains("tasks do not see") && why.contains("--ro-mount"), "{why}");
    }
    assert!(found(Some(&to_system), None, &[]).is_err());
}
