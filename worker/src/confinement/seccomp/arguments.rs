//! Calls that are allowed but for some of their arguments. Only numbers can be looked at, never what a pointer leads to.

use std::collections::BTreeMap;

use anyhow::Context as _;
use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use super::super::gvisor;

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

/// Ioctls that an ordinary user may make and a task must not.
const IOCTLS: &[u64] = &[
    // Type into a terminal, and read its console.
    0x5412,
    0x541c, // Give a terminal a discipline, for which the kernel loads drivers of modems.
    0x5423, // Name who gets the signals of a socket.
    0x8901,
    0x8902, // Ask for a bridge or a VLAN, for which the kernel loads a module, whoever asks.
    0x8940,
    0x8941,
    0x89a0,
    0x89a1,
    0x8982,
    0x8983,
    // Make a volume or a snapshot of btrfs, or change its flags: one that is read-only could not be removed.
    0x5000_940e,
    0x5000_9401,
    0x5000_9417,
    0x5000_9418,
    0x4008_941a,
];

/// Where a call takes the number of a process. Pid 1 is ours, and of the same user for the kernel: it is not a task's to
/// signal, to slow down or to limit, though Linux itself forbids no more than the signals, and gVisor not even these.
const SIGNALS: &[(i64, u8)] = &[
    (libc::SYS_kill, 0),
    (libc::SYS_tkill, 0),
    (libc::SYS_tgkill, 0),
    (libc::SYS_tgkill, 1),
    (libc::SYS_rt_sigqueueinfo, 0),
    (libc::SYS_rt_tgsigqueueinfo, 0),
    (libc::SYS_rt_tgsigqueueinfo, 1),
    (libc::SYS_pidfd_open, 0),
];

/// The same of calls that change a process rather than signal it.
pub(super) const CHANGES: &[(i64, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setscheduler, 0),
];

/// IOPRIO_WHO_USER: missing in libc.
const IOPRIO_WHO_USER: u64 = 3;

/// What a socket of the internet may be: streams and datagrams, each by its own protocol alone.
const PROTOCOLS: &[i32] = &[0, libc::IPPROTO_TCP, libc::IPPROTO_UDP];
/// The other types of sockets lead to SCTP, DCCP and to packets as they are on the wire.
const OTHER_TYPES: &[i32] = &[libc::SOCK_RAW, libc::SOCK_RDM, libc::SOCK_SEQPACKET, libc::SOCK_DCCP, SOCK_PACKET];
/// Deprecated in libc.
const SOCK_PACKET: i32 = 10;

/// Each call with the arguments that are refused.
pub(super) fn forbidden() -> anyhow::Result<Vec<(i64, Vec<SeccompRule>)>> {
    let mut rules = through_mounts();
    for (call, argument) in SIGNALS.iter().chain(CHANGES) {
        rules.push((*call, vec![rule([equal(*argument, 1)])?]));
    }
    // All processes of a user: pid 1 has the same one.
    rules.push((libc::SYS_setpriority, vec![rule([equal(0, libc::PRIO_USER.into())])?]));
    rules.push((libc::SYS_ioprio_set, vec![rule([equal(0, IOPRIO_WHO_USER)])?]));
    for call in [libc::SYS_clone, libc::SYS_unshare] {
        let flags = NAMESPACES.iter().map(|flag| rule([masked(0, number(*flag), number(*flag))]));
        rules.push((call, flags.collect::<Result<_, _>>()?));
    }
    // A child of pid 1 could choose the signal that tells pid 1 of its end.
    let parent = number(libc::CLONE_PARENT);
    rules.push((libc::SYS_clone, vec![rule([masked(0, parent, parent)])?]));
    let ioctls = IOCTLS.iter().map(|request| rule([equal(1, *request)]));
    rules.push((libc::SYS_ioctl, ioctls.collect::<Result<_, _>>()?));
    rules.push((libc::SYS_fcntl, signals_of_files()?));
    rules.push((libc::SYS_mknodat, devices(2)?));
    #[cfg(target_arch = "x86_64")]
    rules.push((libc::SYS_mknod, devices(1)?));
    rules.push((libc::SYS_socket, sockets()?));
    rules.push((libc::SYS_socketpair, vec![rule([unequal(0, number(libc::AF_UNIX))])?]));
    // Protocols put on top of TCP by the kernel.
    let upper = [equal(1, number(libc::IPPROTO_TCP)), equal(2, number(libc::TCP_ULP))];
    rules.push((libc::SYS_setsockopt, vec![rule(upper)?]));
    Ok(rules)
}

/// Whoever changes the limit of core dumps is told that it was done: many programs set it to 0 and give up when they cannot.
/// It stays as it is, because 0 would let a program of the machine run: see `NO_CORE_BYTES`.
pub(super) fn of_cores() -> anyhow::Result<BTreeMap<i64, Vec<SeccompRule>>> {
    let new_limit = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0);
    let core = u64::from(libc::RLIMIT_CORE);
    Ok(BTreeMap::from([
        (libc::SYS_setrlimit, vec![rule([equal(0, core)])?]),
        (libc::SYS_prlimit64, vec![rule([equal(1, core), new_limit])?]),
    ]))
}

/// What only gVisor does: a file is cut by its path through a read-only mount, as the program of pid 1 would be.
fn through_mounts() -> Vec<(i64, Vec<SeccompRule>)> {
    if gvisor::is_kernel() { vec![(libc::SYS_truncate, Vec::new())] } else { Vec::new() }
}

/// Device nodes, which gVisor lets everybody make. `mode` is the argument that holds the kind of file.
fn devices(mode: u8) -> anyhow::Result<Vec<SeccompRule>> {
    let kinds = [libc::S_IFCHR, libc::S_IFBLK].map(|kind| rule([masked(mode, libc::S_IFMT.into(), kind.into())]));
    kinds.into_iter().collect()
}

/// Who gets the signals of a file, which can be any signal: not pid 1, nor its group; nor by a pointer.
fn signals_of_files() -> anyhow::Result<Vec<SeccompRule>> {
    let owner = number(libc::F_SETOWN);
    let group = u64::from((-1_i32).cast_unsigned());
    Ok(vec![
        rule([equal(1, owner), equal(2, 1)])?,
        rule([equal(1, owner), equal(2, group)])?,
        rule([equal(1, F_SETOWN_EX)])?,
    ])
}

/// Missing in libc.
const F_SETOWN_EX: u64 = 15;

/// Packets as they are on the wire, and families and protocols whose code few have looked at.
fn sockets() -> anyhow::Result<Vec<SeccompRule>> {
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let mut rules = vec![
        rule(families.map(|family| unequal(0, number(family))))?,
        rule([equal(0, number(libc::AF_NETLINK)), unequal(2, number(libc::NETLINK_ROUTE))])?,
    ];
    for family in [libc::AF_INET, libc::AF_INET6] {
        let family = || equal(0, number(family));
        let other = PROTOCOLS.iter().map(|protocol| unequal(2, number(*protocol)));
        rules.push(rule(std::iter::once(family()).chain(other))?);
        for other in OTHER_TYPES {
            // The bits above are flags.
            rules.push(rule([family(), masked(1, 0xf, number(*other))])?);
        }
    }
    Ok(rules)
}

type Condition = Result<SeccompCondition, seccompiler::BackendError>;

fn number(value: i32) -> u64 {
    value.unsigned_abs().into()
}

/// The kernel takes the lower half of a number that it takes as an `int`.
fn equal(argument: u8, value: u64) -> Condition {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

fn unequal(argument: u8, value: u64) -> Condition {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
}

fn masked(argument: u8, mask: u64, value: u64) -> Condition {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), value)
}

/// All of the conditions at once.
fn rule(conditions: impl IntoIterator<Item = Condition>) -> anyhow::Result<SeccompRule> {
    let conditions = conditions.into_iter().collect::<Result<_, _>>().context("condition")?;
    Ok(SeccompRule::new(conditions)?)
}
