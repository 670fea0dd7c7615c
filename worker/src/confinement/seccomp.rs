//! The system calls that a task may make, compiled by seccompiler. What is not listed does not exist (`ENOSYS`); what a
//! program might reasonably try and must not do is forbidden (`EPERM`).

use std::collections::BTreeMap;

use anyhow::Context as _;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

mod calls;

/// The flags of `clone` and `unshare` that make a namespace.
const NAMESPACES: &[i32] = &[
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    // CLONE_NEWTIME: missing in libc.
    0x80,
];

/// The ioctl that types into a terminal.
const TIOCSTI: u64 = 0x5412;
/// The ioctl that lets a terminal's console be read.
const TIOCLINUX: u64 = 0x541c;

/// Filters in the order in which they are put in force.
pub(super) struct Filters(Vec<BpfProgram>);

impl Filters {
    pub(super) fn compile() -> anyhow::Result<Self> {
        let allowed = calls::ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
        let allow = compile(allowed, SeccompAction::Allow, errno(libc::ENOSYS)).context("allow-list")?;
        let forbid = compile(forbidden()?, errno(libc::EPERM), SeccompAction::Allow).context("deny-list")?;
        // A library that is told that clone3 does not exist uses clone, whose flags can be looked at.
        let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        let clone3 = compile(clone3, errno(libc::ENOSYS), SeccompAction::Allow).context("clone3")?;
        Ok(Self(vec![allow, forbid, clone3]))
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
    for call in [libc::SYS_clone, libc::SYS_unshare] {
        let flags: Result<Vec<_>, _> = NAMESPACES.iter().map(|flag| has_flag(flag.unsigned_abs().into())).collect();
        rules.insert(call, flags?);
    }
    rules.insert(libc::SYS_ioctl, vec![is(1, TIOCSTI)?, is(1, TIOCLINUX)?]);
    // Packets as they are on the wire, and families whose code few have looked at.
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let other = families.iter().map(|family| {
        let family = u64::from(family.unsigned_abs());
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)
    });
    rules.insert(libc::SYS_socket, vec![SeccompRule::new(other.collect::<Result<_, _>>()?)?]);
    Ok(rules)
}

fn has_flag(flag: u64) -> anyhow::Result<SeccompRule> {
    let condition = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag)?;
    Ok(SeccompRule::new(vec![condition])?)
}

fn is(argument: u8, value: u64) -> anyhow::Result<SeccompRule> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?;
    Ok(SeccompRule::new(vec![condition])?)
}

#[cfg(test)]
mod tests;
