//! `cw init`: writes a config file in which every key stands with its meaning and its default.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::Context;
use crate::config::TEMPLATE;
use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// What `init` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Overwrite a file that is there already
    #[arg(long)]
    force: bool,
    /// Print it instead
    #[arg(long)]
    print: bool,
    /// Where to [default: what --config or CW_CONFIG names, else ~/.config/code-workers/config.toml]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Writes the file.
pub(crate) fn run(args: Args, context: &mut Context) -> Result<Exit> {
    if args.print {
        context.out.data(TEMPLATE)?;
        return Ok(Exit::DONE);
    }
    let path = args.file.or_else(|| context.config_file.clone());
    let path = path.ok_or_else(|| Failure::usage("there is no home directory to write to").next("name a FILE"))?;
    write(&path, args.force)?;
    if context.out.json() {
        context.out.value(&serde_json::json!({"path": path.display().to_string()}))?;
    } else {
        context.out.data(&path.display().to_string())?;
        context.out.talk("every line in it is a default; `cw doctor` checks it");
    }
    Ok(Exit::DONE)
}

fn write(path: &Path, force: bool) -> Result<()> {
    let shown = path.display();
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        let directory_shown = directory.display();
        std::fs::create_dir_all(directory).map_err(|error| Failure::file("create", directory_shown, &error))?;
    }
    let mut options = std::fs::OpenOptions::new();
    let options =
        if force { options.write(true).create(true).truncate(true) } else { options.write(true).create_new(true) };
    let opened = options.open(path).map_err(|error| {
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            let there = Failure::new(Exit::CONFLICT, "exists", format!("{shown} is there already"));
            return there.next("overwrite it with --force");
        }
        Failure::file("write", shown, &error)
    });
    opened?.write_all(TEMPLATE.as_bytes()).map_err(|error| Failure::file("write", path.display(), &error))
}
