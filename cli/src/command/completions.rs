//! `cw completions`: what a shell needs to complete `cw`.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::Context;
use crate::arguments::Cli;
use crate::exit::Exit;
use crate::failure::Result;

/// What `completions` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Prints them.
pub(crate) fn run(args: Args, context: &mut Context) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "cw", &mut script);
    context.out.bytes(&script)?;
    Ok(Exit::DONE)
}
