//! From what was typed to the spec that is submitted.

use std::collections::BTreeMap;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use protocol::path::RelativePath;
use protocol::spec::{Base64, Content, Network, Priority, Retry, SessionMode};
use protocol::{Limits, Reason, Run, Spec, TaskId, Timestamp};

use super::Args;
use super::source::{Source, Stdin, read};
use crate::clock;
use crate::command::seconds;
use crate::config::{Settings, variable};
use crate::failure::{Failure, Result};

/// The longest deadlines, in seconds, as the coordinator takes them.
const LONGEST_CODE_S: u32 = 3600;
const LONGEST_AGENT_S: u32 = 86_400;

/// What the process may use.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Confinement and limits")]
pub(crate) struct LimitArgs {
    /// Memory of all its processes, such as 512M
    #[arg(long, value_name = "SIZE", value_parser = protocol::unit::size_bytes)]
    memory: Option<u64>,
    /// Processor time of all its processes
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    cpu: Option<u32>,
    /// Processes and threads at one time
    #[arg(long, value_name = "N")]
    pids: Option<u32>,
    /// The largest file it may write
    #[arg(long, value_name = "SIZE", value_parser = protocol::unit::size_bytes)]
    file_size: Option<u64>,
    /// Open files of one process
    #[arg(long, value_name = "N")]
    open_files: Option<u32>,
    /// Disk that all its files may take
    #[arg(long, value_name = "SIZE", value_parser = protocol::unit::size_bytes)]
    disk: Option<u64>,
    /// Output of one stream that is kept [default: 10M]
    #[arg(long, value_name = "SIZE", value_parser = protocol::unit::size_bytes)]
    output: Option<u64>,
    /// What an agent may spend, in US dollars
    #[arg(long, value_name = "USD")]
    cost: Option<f64>,
    /// How many turns an agent may take
    #[arg(long, value_name = "N")]
    turns: Option<u32>,
}

impl LimitArgs {
    fn limits(&self) -> Limits {
        Limits {
            memory_bytes: self.memory,
            cpu_s: self.cpu,
            pids: self.pids,
            file_size_bytes: self.file_size,
            open_files: self.open_files,
            disk_bytes: self.disk,
            output_bytes: self.output,
            cost_usd: self.cost,
            turns: self.turns,
        }
    }
}

/// A file that is laid out before the start.
#[derive(Debug, Clone)]
pub(crate) struct FileToLay {
    path: RelativePath,
    local: String,
}

impl FromStr for FileToLay {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (path, local) = text.split_once('=').unwrap_or((text, text));
        let path = path.strip_prefix("./").unwrap_or(path);
        let path = path.parse().map_err(|error| format!("{error}; give another place by PATH=LOCAL"))?;
        Ok(Self { path, local: local.to_owned() })
    }
}

/// Makes the spec. Reads files and stdin, never the network.
pub(super) fn build(args: Args, settings: &Settings) -> Result<Spec> {
    let mut stdin = Stdin::default();
    let run = choose_run(&args, &mut stdin)?;
    let is_agent = run.is_agent();
    Ok(Spec {
        args: program_arguments(&args),
        stdin: args.stdin.as_deref().map(|from| stdin.file("--stdin", from).map(content)).transpose()?,
        event: args.event.as_deref().map(|from| event(&mut stdin, from)).transpose()?,
        env: environment(&args.env)?,
        files: files(&args.files)?,
        session: args.session.clone(),
        session_mode: args.session_mode.unwrap_or_default(),
        priority: priority(args.priority.as_deref().or(settings.priority.as_deref()))?,
        timeout_s: match given(args.timeout.as_deref()) {
            Some(text) => Some(timeout("--timeout", text, is_agent)?),
            None => {
                settings.timeout.as_deref().map(|text| timeout("the default timeout", text, is_agent)).transpose()?
            }
        },
        idle_timeout_s: args
            .idle_timeout
            .as_deref()
            .map(|text| timeout("--idle-timeout", text, is_agent))
            .transpose()?,
        limits: args.limits.limits(),
        network: args.network,
        requires: args.requires.iter().cloned().collect(),
        max_attempts: args.max_attempts,
        retry: retry(&args),
        not_before: not_before(&args),
        labels: args.labels.iter().cloned().collect(),
        ..Spec::new(args.repo, run)
    })
}

/// The option that gives a program's code; words after `--` are then its arguments.
fn code_option(args: &Args) -> Option<&'static str> {
    let options = [("--python", &args.python), ("--js", &args.js), ("--shell", &args.shell)];
    options.into_iter().find(|(_, code)| code.is_some()).map(|(option, _)| option)
}

fn program_arguments(args: &Args) -> Vec<String> {
    let after_dashes = if code_option(args).is_some() { args.argv.as_slice() } else { &[] };
    [&args.args, after_dashes].concat()
}

/// Words between the code and its options are neither a prompt nor, without `--`, arguments.
fn check_words(args: &Args) -> Result<()> {
    match code_option(args) {
        Some(option) if !args.prompt.is_empty() => {
            let words: Vec<String> = args.prompt.iter().map(|word| format!("--arg {}", quoted(word))).collect();
            let message = format!("{option} and a prompt exclude each other");
            Err(Failure::usage(message).next(format!("arguments for the program: {}", words.join(" "))))
        }
        _ => Ok(()),
    }
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,@%+".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Exactly one thing is run.
fn choose_run(args: &Args, stdin: &mut Stdin) -> Result<Run> {
    check_words(args)?;
    let given = [
        ("a prompt", !args.prompt.is_empty()),
        ("--python", args.python.is_some()),
        ("--js", args.js.is_some()),
        ("--shell", args.shell.is_some()),
        ("a command after `--`", !args.argv.is_empty() && code_option(args).is_none()),
    ];
    let given: Vec<&str> = given.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name).collect();
    match given.as_slice() {
        [_] => {}
        [] => {
            return Err(Failure::usage("nothing to run")
                .next("give a prompt, --python FILE, --js FILE, --shell CODE, or a command after `--`"));
        }
        several => {
            return Err(
                Failure::usage(format!("{} exclude each other", several.join(" and "))).next("send one task for each")
            );
        }
    }
    check_agent_options(args)?;
    if let Some(from) = &args.python {
        return stdin.program("--python", from).map(|code| Run::Python { code });
    }
    if let Some(from) = &args.js {
        return stdin.program("--js", from).map(|code| Run::Javascript { code });
    }
    if let Some(from) = &args.shell {
        return stdin.text(Source::CODE, from).map(|code| Run::Shell { code });
    }
    if !args.argv.is_empty() {
        return Ok(Run::Command { argv: args.argv.clone() });
    }
    let prompt = stdin.text(Source::PROMPT, one_prompt(args)?)?;
    Ok(Run::Agent { agent: args.agent.clone(), prompt, model: args.model.clone(), resume: None })
}

fn check_agent_options(args: &Args) -> Result<()> {
    let options =
        [("--agent", args.agent.is_some()), ("--model", args.model.is_some()), ("--continue", args.resume.is_some())];
    match options.iter().find(|(_, is_given)| *is_given && args.prompt.is_empty()) {
        Some((option, _)) => Err(Failure::usage(format!("{option} is for a prompt, and there is none"))),
        None => Ok(()),
    }
}

fn one_prompt(args: &Args) -> Result<&str> {
    match args.prompt.as_slice() {
        [prompt] => Ok(prompt),
        words => Err(Failure::usage("the prompt is one argument").next(format!(
            "quote it: cw send {} {}",
            args.repo,
            quoted(&words.join(" "))
        ))),
    }
}

/// Makes the task go on with the conversation of another.
pub(super) fn resume(spec: &mut Spec, id: TaskId) {
    if let Run::Agent { resume, .. } = &mut spec.run {
        *resume = Some(id);
    }
}

fn content(bytes: Vec<u8>) -> Content {
    match String::from_utf8(bytes) {
        Ok(text) => Content::Text(text),
        Err(error) => Content::Base64(Base64 { base64: BASE64_STANDARD.encode(error.as_bytes()) }),
    }
}

fn event(stdin: &mut Stdin, from: &str) -> Result<serde_json::Value> {
    let text = stdin.text(Source::EVENT, from)?;
    let event = serde_json::from_str(&text).map_err(|error| Failure::usage(format!("--event: not JSON: {error}")))?;
    if event == serde_json::Value::Null {
        return Err(Failure::usage("--event: null counts as no event").next("give another value, such as {}"));
    }
    Ok(event)
}

/// `NAME=VALUE`, or `NAME` with the value that it has here.
fn environment(given: &[String]) -> Result<BTreeMap<String, String>> {
    given.iter().map(|given| one_variable(given)).collect()
}

fn one_variable(given: &str) -> Result<(String, String)> {
    if let Some((name, value)) = given.split_once('=') {
        return Ok((name.to_owned(), value.to_owned()));
    }
    let value = variable(given).ok_or_else(|| {
        Failure::usage(format!("--env {given}: there is no such variable here"))
            .next(format!("give --env {given}=VALUE"))
    })?;
    let value =
        value.into_string().map_err(|_| Failure::usage(format!("--env {given}: its value is not text in UTF-8")))?;
    Ok((given.to_owned(), value))
}

fn files(given: &[FileToLay]) -> Result<BTreeMap<RelativePath, Content>> {
    given.iter().map(|file| Ok((file.path.clone(), content(read(&file.local)?)))).collect()
}

fn priority(given: Option<&str>) -> Result<Priority> {
    let Some(word) = self::given(given) else { return Ok(Priority::default()) };
    let known = Priority::ALL.into_iter().find(|priority| priority.as_str() == word);
    known.ok_or_else(|| Failure::usage(format!("priority `{word}`: expected critical, high, normal or low")))
}

fn given(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

fn timeout(name: &str, text: &str, is_agent: bool) -> Result<u32> {
    let longest = if is_agent { LONGEST_AGENT_S } else { LONGEST_CODE_S };
    let bad = |what: &str| Failure::usage(format!("{name} {text}: {what}"));
    match seconds(text).map_err(|error| bad(&error))? {
        0 => Err(bad("at least 1s")),
        seconds if seconds > longest => Err(bad("at most 1h for code, 24h for an agent")),
        seconds => Ok(seconds),
    }
}

fn retry(args: &Args) -> Option<Retry> {
    let on: std::collections::BTreeSet<_> = args.retry_on.iter().copied().collect();
    (!on.is_empty()).then(|| Retry { on, backoff_s: args.retry_backoff.unwrap_or(0) })
}

fn not_before(args: &Args) -> Option<Timestamp> {
    let after_delay =
        |delay: std::time::Duration| clock::now().plus_ms(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX));
    args.not_before.or(args.delay.map(after_delay))
}

/// Reads the reason for which a task is tried again.
pub(super) fn reason(word: &str) -> std::result::Result<Reason, String> {
    let is_failure = |reason: &Reason| ![Reason::Ok, Reason::Cancelled].contains(reason);
    Reason::from_word(word).filter(is_failure).ok_or_else(|| {
        let failures = Reason::ALL.iter().filter(|reason| is_failure(reason));
        let words: Vec<&str> = failures.map(|reason| reason.as_str()).collect();
        format!("no such reason; there are {}", words.join(", "))
    })
}

pub(super) fn session_mode(word: &str) -> SessionMode {
    if word == "read" { SessionMode::Read } else { SessionMode::Write }
}

pub(super) fn network(word: &str) -> Network {
    if word == "restricted" { Network::Restricted } else { Network::None }
}
