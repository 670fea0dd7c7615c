//! Where settings come from, and the commands that need no coordinator.

use crate::peer::{Peer, answer};
use crate::program::{ID, User, binary, finish, task};

const CONFIG: &str = ".config/code-workers/config.toml";

fn peer() -> Peer {
    Peer::start(|_, _| answer(task(ID, "completed", Some("ok"))))
}

#[test]
fn flag_beats_variable_beats_file() {
    let (by_flag, by_variable, by_file) = (peer(), peer(), peer());
    let user = User::of(&by_variable);
    user.write(CONFIG, &format!("coordinator = '{}'\n", by_file.url));
    user.run(&["--coordinator", &by_flag.url, "get", ID]);
    assert_eq!([&by_flag, &by_variable, &by_file].map(|peer| peer.requests().len()), [1, 0, 0]);
    user.run(&["get", ID]);
    assert_eq!([&by_flag, &by_variable, &by_file].map(|peer| peer.requests().len()), [1, 1, 0]);
    let user = user.with("CW_COORDINATOR", "");
    user.run(&["get", ID]);
    assert_eq!([&by_flag, &by_variable, &by_file].map(|peer| peer.requests().len()), [1, 1, 1]);
}

#[test]
fn defaults_of_send_come_from_variable_and_file() {
    let peer = peer();
    let user = User::of(&peer);
    user.write(CONFIG, "timeout = '2m'\npriority = 'low'\n");
    user.run(&["send", "r", "x"]);
    let user = user.with("CW_PRIORITY", "high");
    user.run(&["send", "r", "x", "--timeout", "9s"]);
    let specs: Vec<_> = peer.asked("POST /v1/tasks").iter().map(|request| request.json()).collect();
    assert_eq!((&specs[0]["timeout_s"], &specs[0]["priority"]), (&120.into(), &"low".into()));
    assert_eq!((&specs[1]["timeout_s"], &specs[1]["priority"]), (&9.into(), &"high".into()));
}

#[test]
fn unknown_key_of_the_config_file_is_named() {
    let user = User::of(&peer());
    user.write(CONFIG, "json = true\nkey = 'cwk_x'\n");
    let ran = user.run(&["list"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("config.toml: line 2: unknown field `key`"), "{}", ran.err);
    let doctor = user.run(&["doctor"]);
    assert!(doctor.code == 2 && doctor.out.contains("✗ config"), "{doctor:?}");
}

#[test]
fn named_config_file_must_be_there() {
    let ran = User::of(&peer()).run(&["--config", "missing.toml", "list"]);
    assert!(ran.code == 2 && ran.err.contains("missing.toml"), "{ran:?}");
}

#[test]
fn init_writes_a_file_that_works_and_never_overwrites_one() {
    let user = User::of(&peer());
    let ran = user.run(&["init"]);
    assert_eq!(ran.out.trim(), user.home.path().join(CONFIG).to_str().unwrap());
    assert_eq!(user.run(&["get", ID]).code, 0);
    user.write(CONFIG, "quiet = true\n");
    let again = user.run(&["init"]);
    assert!(again.code == 5 && again.err.contains("--force"), "{again:?}");
    assert_eq!(std::fs::read_to_string(user.home.path().join(CONFIG)).unwrap(), "quiet = true\n");
    assert_eq!(user.run(&["init", "--force"]).code, 0);
}

#[test]
fn init_writes_the_file_that_the_config_option_or_its_variable_names() {
    let user = User::new().with("CW_CONFIG", "by-variable.toml");
    assert_eq!(user.run(&["init", "--config", "by-flag.toml"]).out, "by-flag.toml\n");
    assert_eq!(user.run(&["init"]).out, "by-variable.toml\n");
    let is_there = |path: &str| user.home.path().join(path).exists();
    assert_eq!(["by-flag.toml", "by-variable.toml", CONFIG].map(is_there), [true, true, false]);
}

#[test]
fn variable_that_is_neither_yes_nor_no_is_refused() {
    let user = User::of(&peer());
    let ran = user.with("CW_JSON", "maybe").run(&["get", ID]);
    assert!(ran.code == 2 && ran.err.contains("expected true or false"), "{ran:?}");
    assert!(User::of(&peer()).with("CW_JSON", "").run(&["get", ID]).out.contains("completed"));
}

#[test]
fn every_shell_gets_completions_that_it_can_read() {
    let user = User::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = user.run(&["completions", shell]);
        assert!(ran.code == 0 && ran.out.contains("cancel"), "{shell}");
    }
    let check = format!("{} completions bash | bash -n", binary().display());
    assert_eq!(finish(user.command("/bin/sh").args(["-c", &check]).spawn().unwrap()).err, "");
}

#[test]
fn manual_has_a_page_for_each_command() {
    let user = User::new();
    let page = user.run(&["man"]).out;
    assert!(page.contains(".TH cw 1") && page.contains(".SH \"EXIT CODES\"\n") && !page.contains("EXTRA"), "{page}");
    assert_eq!(user.run(&["man", "pages"]).code, 0);
    for page in ["cw.1", "cw-send.1", "cw-keys-create.1"] {
        assert!(user.home.path().join("pages").join(page).exists(), "{page}");
    }
    let send = std::fs::read_to_string(user.home.path().join("pages/cw-send.1")).unwrap();
    assert!(send.contains(".SH EXAMPLES\n") && !send.contains("EXTRA"), "{send}");
}

#[test]
fn help_lists_the_exit_codes_and_goes_to_stdout() {
    let ran = User::new().run(&["--help"]);
    assert!(ran.code == 0 && ran.err.is_empty() && ran.out.contains("124  the wait ran out"), "{ran:?}");
}
