//! Calls by which a task would reach others where it has no namespaces: they are forbidden there, as far as they do. No
//! socket can be made but pairs of connected ones, so that no network and no service of the machine is reached.

use std::collections::BTreeMap;

use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use super::arguments::CHANGES;

/// Sockets that can be told where to, and memory, queues and semaphores that all of the machine shares.
const FORBIDDEN: &[i64] = &[
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// The bits of a socket's type that are flags.
const KIND: u64 = 0xf;

pub(super) fn forbidden() -> anyhow::Result<BTreeMap<i64, Vec<SeccompRule>>> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = FORBIDDEN.iter().map(|call| (*call, Vec::new())).collect();
    // A message of a datagram socket can name another receiver than the other end of the pair.
    let kinds = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET].map(|kind| u64::from(kind.unsigned_abs()));
    let others: Vec<_> = (0..=KIND).filter(|kind| !kinds.contains(kind)).collect();
    let is_other = others.iter().map(|kind| is(1, SeccompCmpOp::MaskedEq(KIND), *kind));
    rules.insert(libc::SYS_socketpair, is_other.collect::<anyhow::Result<_>>()?);
    // When the argument is not the caller, it may be another process of the same user, such as the worker or `init`.
    for (call, argument) in CHANGES {
        rules.insert(*call, vec![is(*argument, SeccompCmpOp::Ne, 0)?]);
    }
    Ok(rules)
}

fn is(argument: u8, how: SeccompCmpOp, value: u64) -> anyhow::Result<SeccompRule> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value)?;
    Ok(SeccompRule::new(vec![condition])?)
}
