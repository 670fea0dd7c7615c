//! `cw man`: the manual, one page on stdout or all of them into a directory.

use std::path::PathBuf;

use clap::CommandFactory as _;

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

/// Prints or writes the pages.
pub(crate) fn run(args: Args, context: &mut Context) -> Result<Exit> {
    let Some(directory) = args.directory else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page)?;
        context.out.bytes(&page)?;
        return Ok(Exit::DONE);
    };
    let failed = |error: std::io::Error| Failure::file("write to", directory.display(), &error);
    std::fs::create_dir_all(&directory).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), &directory).map_err(failed)?;
    context.out.talk(&format!("the pages are in {}; read one with `man -l {0}/cw.1`", directory.display()));
    Ok(Exit::DONE)
}
