//! Rules on files by Landlock, behind the mounts: the task writes only below its own directories, not even to /proc, and
//! signals only what came of itself. Without mounts they also say what it may read. As much of it as the kernel knows; without Landlock (gVisor) there are none.

use anyhow::Context as _;
use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _, RulesetCreated,
    RulesetCreatedAttr as _, Scope, path_beneath_rules,
};

use super::mounts::SYSTEM;
use super::{HOME, Inner, Inside, Policy, TEMPORARY, WORK, etc};

/// The newest rules that are used: those that are missing in an older kernel are left out.
const NEWEST: ABI = ABI::V6;
/// Behind mounts, what a task may read is what it sees, and what of /dev is read-only is so by its mount.
const READABLE: [&str; 1] = ["/"];
const WRITABLE: [&str; 4] = [WORK, HOME, TEMPORARY, "/dev"];
/// Without mounts: of /proc and /sys what runtimes ask of the machine, and the program's own processes by no other's.
const MACHINE: &[&str] = &[
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/version",
    "/sys/devices/system/cpu",
];
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// What a task may read, and where it may write.
pub(super) fn plan(policy: &Policy, inside: &Inside) -> Inner {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let level = policy.level;
    if level.has_namespaces() {
        return Inner { level, reads: words(&READABLE), writes: words(&WRITABLE) };
    }
    let mut reads = words(SYSTEM);
    reads.extend(words(MACHINE));
    reads.extend(etc::names().map(|name| format!("/etc/{name}")));
    reads.extend(policy.ro_mounts.iter().map(|path| path.display().to_string()));
    reads.extend([inside.task.clone(), inside.init.clone()]);
    let writes = [words(&inside.writable()), words(DEVICES)].concat();
    Inner { level, reads, writes }
}

/// Rules that are ready to be put in force.
pub(super) struct Rules(RulesetCreated);

impl Rules {
    /// Collects them, where the paths that they are about are seen. A path that is not there has none.
    pub(super) fn new(plan: &Inner) -> anyhow::Result<Self> {
        let (reads, all) = (AccessFs::from_read(NEWEST), AccessFs::from_all(NEWEST));
        let rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(all)?
            .scope(Scope::from_all(NEWEST))?
            .create()?
            .add_rules(path_beneath_rules(&plan.reads, reads))?
            .add_rules(path_beneath_rules(&plan.writes, all))
            .context("cannot collect rules on files")?;
        Ok(Self(rules))
    }

    /// Puts them in force for this process and all that it starts.
    pub(super) fn apply(self) -> std::io::Result<()> {
        self.0.restrict_self().map(drop).map_err(std::io::Error::other)
    }
}
