//! `cw man`: the manual, one page through `man` or on stdout, or all of them into a directory.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::CommandFactory as _;
use clap_mangen::Man;

use super::Context;
use crate::arguments::Cli;
use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// What `man` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write one page for each command into this directory
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Shows, prints or writes the pages.
pub(crate) fn run(args: Args, context: &mut Context) -> Result<Exit> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let Some(directory) = args.directory else {
        let page = render(&Man::new(command))?;
        if !context.out.stdout_is_terminal() || !show(&page) {
            context.out.bytes(page.as_bytes())?;
        }
        return Ok(Exit::DONE);
    };
    let failed = |error: io::Error| Failure::file("write to", directory.display(), &error);
    std::fs::create_dir_all(&directory).map_err(failed)?;
    write_pages(command, &directory).map_err(failed)?;
    context.out.talk(&format!("the pages are in {}; read one with `man -l {0}/cw.1`", directory.display()));
    Ok(Exit::DONE)
}

/// The page, with a heading that says what the text after the options is.
fn render(man: &Man) -> io::Result<String> {
    let mut page = Vec::new();
    man.render(&mut page)?;
    let page = String::from_utf8_lossy(&page);
    let heading = if page.contains("\nExit codes:") { "\"EXIT CODES\"" } else { "EXAMPLES" };
    let page = page.replace(".SH EXTRA\n", &format!(".SH {heading}\n"));
    Ok(page.replace("\nExit codes:\n", "\n").replace("\nExamples:\n", "\n"))
}

/// Shows the page by `man`; answers whether there is one that did.
fn show(page: &str) -> bool {
    let spawned = Command::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn();
    let Ok(mut reader) = spawned else { return false };
    // A reader that goes away early has seen enough; one that cannot read says so by its exit code.
    let _ = reader.stdin.take().map(|mut stdin| stdin.write_all(page.as_bytes()));
    reader.wait().is_ok_and(|status| status.success())
}

fn write_pages(command: clap::Command, directory: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        write_pages(subcommand.clone(), directory)?;
    }
    let man = Man::new(command);
    std::fs::write(directory.join(man.get_filename()), render(&man)?)
}
