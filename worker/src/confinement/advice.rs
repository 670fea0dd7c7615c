//! What to do about a wall that cannot be built or does not stand: pure, from what failed and from the machine's settings.

/// Settings of the machine that decide whether a confinement can be built; none where the kernel does not have one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    /// How many user namespaces one may make.
    pub(crate) max_user_namespaces: Option<u64>,
    /// Debian's switch for users that are not root.
    pub(crate) unprivileged_userns_clone: Option<u64>,
    /// Ubuntu's: a program needs an AppArmor profile of its own.
    pub(crate) apparmor_restricts: Option<u64>,
}

impl Machine {
    /// Reads them.
    pub(crate) fn look() -> Self {
        let number = |name: &str| {
            let text = std::fs::read_to_string(format!("/proc/sys/{name}")).ok()?;
            text.trim().parse().ok()
        };
        Self {
            max_user_namespaces: number("user/max_user_namespaces"),
            unprivileged_userns_clone: number("kernel/unprivileged_userns_clone"),
            apparmor_restricts: number("kernel/apparmor_restrict_unprivileged_userns"),
        }
    }
}

/// Which step a message is about, by words of ours, of bubblewrap's or of the kernel's, and what to do about it. The
/// first that fits counts.
const STEPS: &[(&[&str], &str)] = &[
    (&["bubblewrap is not installed"], "apt-get install bubblewrap (or your system's like)"),
    (
        &["cannot become user", "Invalid argument"],
        "the worker is root of a user namespace without this user: give a --task-uid that is mapped, or run the worker as \
         an ordinary user",
    ),
    (
        &["cannot become user"],
        "the worker is root without CAP_SETUID and CAP_SETGID: add them (docker: --cap-add), or run it as an ordinary user",
    ),
    (&["execvp", "Permission denied"], NOEXEC),
    (&["cannot run programs from"], NOEXEC),
    (
        &["bwrap", "proc", "not permitted"],
        "something is mounted over parts of /proc, as containers have it, so that no other can be mounted: docker and \
         podman: --security-opt systempaths=unconfined (podman: unmask=ALL)",
    ),
    (&["cannot join", "cgroup"], "let the worker write its cgroup (systemd: Delegate=yes), or give --cgroup off"),
    (&["--confinement none: tasks"], "docs/security.md says what each level holds"),
    (&["--confinement process: only"], "docs/security.md says what each level holds"),
    (
        &["cannot come to the attempt's directory"],
        "a directory on the way to the state directory is closed to the users that tasks run as: choose another by \
         --state-dir, such as /var/lib/code-workers",
    ),
    (&["--cgroup require"], "run the worker as root or in a systemd unit with Delegate=yes, or give --cgroup auto"),
    (
        &["Can't find source path", "Permission denied"],
        "a directory on the way there is closed to the users that tasks run as: open it (chmod o+x), or keep what tasks \
         may read (--ro-mount) elsewhere, such as below /opt",
    ),
    (&["--ro-mount"], "leave that directory out of --ro-mount"),
    (&["state directory"], "choose another by --state-dir or CW_STATE_DIR, or mend its owner and mode"),
    (&["cannot prepare"], "free some space where the state directory is, or choose another by --state-dir"),
];

const NOEXEC: &str = "the state directory is on a file system that is mounted noexec: choose another by --state-dir, or \
                      remount it: mount -o remount,exec";

/// How what is said of cgroups begins where the operator does not want them.
pub(crate) const SWITCHED_OFF: &str = "switched off by --cgroup off";

/// Words of steps that need namespaces.
const NAMESPACES: &[&str] = &["namespace", "user 1000", "loopback", "cannot mount the attempt", "mounts private"];

/// What to do when the confinement could not be built at all.
pub(crate) fn for_failure(message: &str, machine: &Machine) -> String {
    let fits = |words: &&[&str]| words.iter().all(|word| message.contains(word));
    if let Some((_, fix)) = STEPS.iter().find(|(words, _)| fits(words)) {
        return (*fix).to_owned();
    }
    if NAMESPACES.iter().any(|word| message.contains(word)) || message.contains("uid map") {
        return for_namespaces(machine).to_owned();
    }
    "see docs/security.md; if it does not help, please report this message".to_owned()
}

fn for_namespaces(machine: &Machine) -> &'static str {
    if machine.max_user_namespaces == Some(0) {
        return "user namespaces are switched off: sysctl -w user.max_user_namespaces=10000";
    }
    if machine.unprivileged_userns_clone == Some(0) {
        return "only root may make user namespaces: sysctl -w kernel.unprivileged_userns_clone=1";
    }
    if machine.apparmor_restricts.is_some_and(|value| value > 0) {
        return "AppArmor forbids user namespaces: give cw-worker a profile that has `userns,`, or \
                sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";
    }
    "user namespaces are refused here. In docker: --security-opt seccomp=unconfined --security-opt \
     apparmor=unconfined; in a chroot they cannot be made; else the kernel needs CONFIG_USER_NS and CONFIG_NET_NS, and \
     user.max_user_namespaces must leave room"
}

/// What to do about a layer that does not hold, after what was seen of it.
pub(crate) fn for_layer(layer: &str, seen: &str) -> &'static str {
    match layer {
        "cgroup" if seen.starts_with(SWITCHED_OFF) => {
            "leave out --cgroup off; meanwhile rlimits and samples hold limits"
        }
        "uid" | "namespaces" => "please report this: the namespaces were made and do not hold",
        "privileges" | "seccomp" => "the kernel needs CONFIG_SECCOMP_FILTER",
        "rlimits" => "please report this: a limit was set and not kept",
        "files" => "no --ro-mount may be writable for tasks; if there is none, please report this",
        "network" => "the kernel needs CONFIG_NET_NS",
        "cgroup" => {
            "run the worker as root, or in a systemd unit with Delegate=yes; meanwhile rlimits and samples hold limits"
        }
        "landlock" => {
            "nothing must be done: it is a second lock behind the mounts. Linux 5.13 has it, with lsm=…,landlock"
        }
        "python" => "apt-get install python3, or name one by --python and its directory by --ro-mount",
        "javascript" => "apt-get install nodejs, or name one by --node and its directory by --ro-mount",
        "shell" => "apt-get install bash",
        _ => "see docs/security.md",
    }
}

#[cfg(test)]
mod tests;
