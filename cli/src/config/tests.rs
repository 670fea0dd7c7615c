use std::path::Path;

use super::*;

fn file(text: &str) -> File {
    parse(text, Path::new("config.toml")).unwrap()
}

fn environment() -> Environment {
    Environment { home: Some("/home/me".into()), ..Environment::default() }
}

fn settle(typed: Global, text: &str) -> Settings {
    resolve(&typed, file(text), &environment()).unwrap()
}

#[test]
fn flag_beats_file_and_file_beats_default() {
    let text = "coordinator = 'http://file:1'";
    let typed = Global { coordinator: Some("http://flag:1".to_owned()), ..Global::default() };
    assert_eq!(settle(typed, text).coordinator, "http://flag:1");
    assert_eq!(settle(Global::default(), text).coordinator, "http://file:1");
    assert_eq!(settle(Global::default(), "").coordinator, DEFAULT_COORDINATOR);
}

#[test]
fn empty_value_counts_as_none() {
    let typed = Global { coordinator: Some(String::new()), key_file: Some(PathBuf::new()), ..Global::default() };
    let settings = settle(typed, "coordinator = 'http://file:1'");
    assert_eq!(settings.coordinator, "http://file:1");
    assert!(!settings.key_file_is_named);
}

#[test]
fn flag_can_take_back_what_the_file_says() {
    let typed = Global { json: Some(false), ..Global::default() };
    assert!(!settle(typed, "json = true").manners.json);
    assert!(settle(Global::default(), "json = true").manners.json);
}

#[test]
fn key_is_the_local_coordinators_unless_one_is_named() {
    let default = settle(Global::default(), "");
    assert_eq!(default.key_file, Path::new("/home/me/.local/state/code-workers/admin.key"));
    assert!(!default.key_file_is_named);
    assert_eq!(settle(Global::default(), "state_dir = '~/state'").key_file, Path::new("/home/me/state/admin.key"));
    let named = settle(Global::default(), "key_file = '~/key'");
    assert_eq!(named.key_file, Path::new("/home/me/key"));
    assert!(named.key_file_is_named);
}

#[test]
fn state_home_beats_home() {
    let environment = Environment { state_home: Some("/state".into()), ..environment() };
    let settings = resolve(&Global::default(), File::default(), &environment).unwrap();
    assert_eq!(settings.key_file, Path::new("/state/code-workers/admin.key"));
}

#[test]
fn unknown_key_is_named_with_its_line() {
    let failure = parse("json = true\ncoordinater = 'x'\n", Path::new("/c.toml")).unwrap_err();
    assert!(failure.message.contains("/c.toml") && failure.message.contains("line 2"), "{}", failure.message);
    assert!(failure.message.contains("coordinater"), "{}", failure.message);
    assert_eq!(failure.exit, crate::exit::Exit::USAGE);
}

#[test]
fn template_holds_every_key_with_its_default() {
    let uncommented: String = TEMPLATE
        .lines()
        .filter_map(|line| line.strip_prefix('#'))
        .filter(|line| !line.starts_with(' '))
        .map(|line| format!("{line}\n"))
        .collect();
    let keys: toml::Table = toml::from_str(&uncommented).unwrap();
    assert_eq!(keys.len(), 10);
    let settings = settle(Global::default(), &uncommented);
    assert_eq!(settings.coordinator, DEFAULT_COORDINATOR);
    assert_eq!(settings.manners, Manners::default());
    settle(Global::default(), TEMPLATE);
}

#[test]
fn no_color_is_honoured() {
    let environment = Environment { no_color: true, ..environment() };
    assert!(resolve(&Global::default(), File::default(), &environment).unwrap().manners.no_color);
}
