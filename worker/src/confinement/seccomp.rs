//! The system calls that a task may make, compiled by seccompiler. What is not listed does not exist (`ENOSYS`); what a
//! program might reasonably try and must not do is forbidden (`EPERM`).

use std::collections::BTreeMap;

use anyhow::Context as _;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule, TargetArch, apply_filter};

use super::Level;

mod arguments;
mod calls;
mod shared;

/// Filters in the order in which they are put in force.
pub(super) struct Filters(Vec<BpfProgram>);

impl Filters {
    pub(super) fn compile(level: Level) -> anyhow::Result<Self> {
        let allowed = calls::ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
        let allow = compile(allowed, SeccompAction::Allow, errno(libc::ENOSYS)).context("allow-list")?;
        let forbid = compile(forbidden()?, errno(libc::EPERM), SeccompAction::Allow).context("deny-list")?;
        // A library that is told that clone3 does not exist uses clone, whose flags can be looked at.
        let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        let clone3 = compile(clone3, errno(libc::ENOSYS), SeccompAction::Allow).context("clone3")?;
        let cores = compile(arguments::of_cores()?, errno(0), SeccompAction::Allow).context("core dumps")?;
        // Of two that refuse, the later one says how.
        let mut filters = vec![allow, cores, forbid, clone3];
        if !level.has_namespaces() {
            filters.push(compile(shared::forbidden()?, errno(libc::EPERM), SeccompAction::Allow).context("shared")?);
        }
        Ok(Self(filters))
    }

    /// Puts them in force for this process and all that it starts; also sets no-new-privs.
    pub(super) fn apply(&self) -> std::io::Result<()> {
        self.0.iter().try_for_each(|filter| apply_filter(filter)).map_err(std::io::Error::other)
    }
}

fn compile(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    matched: SeccompAction,
    other: SeccompAction,
) -> anyhow::Result<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    Ok(SeccompFilter::new(rules, other, matched, arch)?.try_into()?)
}

fn errno(number: i32) -> SeccompAction {
    SeccompAction::Errno(number.unsigned_abs())
}

fn forbidden() -> anyhow::Result<BTreeMap<i64, Vec<SeccompRule>>> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = calls::FORBIDDEN.iter().map(|call| (*call, Vec::new())).collect();
    for (call, forbidden) in arguments::forbidden()? {
        rules.entry(call).or_default().extend(forbidden);
    }
    Ok(rules)
}

#[cfg(test)]
mod tests;
