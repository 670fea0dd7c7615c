//! How each kind of task becomes a program with arguments. Code goes in by file, never by argument.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use protocol::lease::LeaseGrant;
use protocol::{Run, Spec};

use crate::config::Walls;
use crate::confinement::Program;
use crate::confinement::inside::Inside;
use crate::confinement::mounts::SYSTEM;
use crate::directory::Directory;

/// Where a task finds programs; also where the worker looks for the ones that it needs.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What stands beside the task's code and runs it.
const PYTHON_HANDLER: &str = include_str!("language/handler.py");
const NODE_HANDLER: &str = include_str!("language/handler.cjs");
const NODE_RUN: &str = include_str!("language/run.cjs");

/// The programs that run code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tools {
    python: Option<PathBuf>,
    node: Option<PathBuf>,
    shell: Option<PathBuf>,
}

impl Tools {
    /// Finds what is there; a Python or a node that was asked for must be, where tasks see it.
    pub(crate) fn find(walls: &Walls) -> anyhow::Result<Self> {
        let asked = |flag, program: &Option<PathBuf>| asked(flag, program.as_deref(), &walls.ro_mounts);
        Ok(Self {
            python: asked("--python", &walls.python)?.or_else(|| find("python3")),
            node: asked("--node", &walls.node)?.or_else(|| find("node")),
            shell: find("bash").or_else(|| find("sh")),
        })
    }

    /// The words for what can be run.
    pub(crate) fn words(&self) -> Vec<String> {
        let has_handler = self.python.is_some() || self.node.is_some();
        let offered = [
            (self.python.is_some(), "python"),
            (self.node.is_some(), "javascript"),
            (self.shell.is_some(), "shell"),
            (true, "command"),
            (has_handler, "handler"),
        ];
        offered.into_iter().filter(|(is_there, _)| *is_there).map(|(_, word)| word.to_owned()).collect()
    }

    /// What to start for a task; its code goes into its directory.
    pub(crate) fn program(&self, grant: &LeaseGrant, spec: &Spec, directory: &Directory) -> anyhow::Result<Program> {
        let (argv, inside) = (self.argv(spec, directory)?, directory.inside());
        let mut env = own_env(grant, spec, &inside);
        if matches!(spec.run, Run::Python { .. }) {
            env.push(("PYTHONUNBUFFERED", "1".into()));
            env.push(("PYTHONPATH", python_path(spec, &inside)));
        }
        if matches!(spec.run, Run::Javascript { .. }) {
            env.push(("NODE_PATH", format!("{0}/node_modules:{0}", inside.work)));
        }
        let mut all = spec.env.clone();
        for (name, value) in env {
            // The spec's own TMPDIR or LANG stands; what is reserved it cannot name.
            if name == "PYTHONPATH" || !all.contains_key(name) {
                all.insert(name.to_owned(), value);
            }
        }
        Ok(Program { argv, env: all, returns: spec.event.is_some(), binds: Vec::new() })
    }

    fn argv(&self, spec: &Spec, directory: &Directory) -> anyhow::Result<Vec<String>> {
        let mut argv = match &spec.run {
            Run::Python { code } => script(self.python.as_deref(), &lay_out_python(spec, code, directory)?)?,
            Run::Javascript { code } => script(self.node.as_deref(), &lay_out_javascript(spec, code, directory)?)?,
            Run::Shell { code } => script(self.shell.as_deref(), &directory.write_code("main.sh", code)?)?,
            Run::Command { argv } => argv.clone(),
            Run::Agent { .. } => bail!("this worker does not run {}", spec.run.word()),
        };
        argv.extend(spec.args.iter().cloned());
        Ok(argv)
    }
}

fn script(program: Option<&Path>, code: &str) -> anyhow::Result<Vec<String>> {
    let program = program.context("its program is not installed here")?;
    Ok(vec![program.display().to_string(), code.to_owned()])
}

/// Writes what Python needs; says which file it starts with.
fn lay_out_python(spec: &Spec, code: &str, directory: &Directory) -> anyhow::Result<String> {
    let main = directory.write_code("main.py", code)?;
    let Some(event) = &spec.event else { return Ok(main) };
    directory.write_code("event.json", &serde_json::to_string(event)?)?;
    Ok(directory.write_code("handler.py", PYTHON_HANDLER)?)
}

/// Writes what node needs; says which file it starts with. Old nodes tell an ES module by its file's name alone, so that
/// the code has both names, and `run.cjs` chooses.
fn lay_out_javascript(spec: &Spec, code: &str, directory: &Directory) -> anyhow::Result<String> {
    directory.write_code("main.js", code)?;
    directory.write_code("main.mjs", code)?;
    let run = directory.write_code("run.cjs", NODE_RUN)?;
    let Some(event) = &spec.event else { return Ok(run) };
    directory.write_code("event.json", &serde_json::to_string(event)?)?;
    Ok(directory.write_code("handler.cjs", NODE_HANDLER)?)
}

fn own_env(grant: &LeaseGrant, spec: &Spec, inside: &Inside) -> Vec<(&'static str, String)> {
    let mut env = vec![
        ("PATH", PATH.to_owned()),
        ("HOME", inside.home.clone()),
        ("TMPDIR", inside.temporary.clone()),
        ("LANG", "C.UTF-8".to_owned()),
        ("CW_TASK_ID", grant.task.to_string()),
        ("CW_ATTEMPT", grant.attempt.to_string()),
        ("CW_REPO", grant.repo.to_string()),
        ("CW_WORKSPACE_DIR", inside.work.clone()),
    ];
    env.extend(spec.session.as_ref().map(|session| ("CW_SESSION", session.to_string())));
    env
}

/// The code stands beside the working directory, whose modules must be found all the same.
fn python_path(spec: &Spec, Inside { work, .. }: &Inside) -> String {
    spec.env.get("PYTHONPATH").map_or_else(|| work.clone(), |more| format!("{work}:{more}"))
}

fn asked(flag: &str, program: Option<&Path>, ro_mounts: &[PathBuf]) -> anyhow::Result<Option<PathBuf>> {
    let Some(program) = program else { return Ok(None) };
    ensure!(is_program(program), "{flag} {}: not a program that can be run", program.display());
    let program = std::path::absolute(program)?;
    // A venv's python is a link: both ends must be there for the task.
    for place in [&program, &std::fs::canonicalize(&program)?] {
        let is_seen = SYSTEM
            .iter()
            .map(Path::new)
            .chain(ro_mounts.iter().map(PathBuf::as_path))
            .any(|seen| place.starts_with(seen));
        ensure!(
            is_seen,
            "{flag} {}: tasks do not see {}: show them its directory by --ro-mount, or name a program below /usr",
            program.display(),
            place.display()
        );
    }
    Ok(Some(program))
}

fn find(name: &str) -> Option<PathBuf> {
    PATH.split(':').map(|directory| Path::new(directory).join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests;
