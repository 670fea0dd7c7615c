//! Rules on files by Landlock, behind the mounts: the task writes only below its own directories, not even to /proc, and
//! signals only what came of itself. As much of it as the kernel knows; without Landlock (gVisor) there are none.

use anyhow::Context as _;
use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _, RulesetCreated,
    RulesetCreatedAttr as _, Scope, path_beneath_rules,
};

use super::{HOME, TEMPORARY, WORK};

/// The newest rules that are used: those that are missing in an older kernel are left out.
const NEWEST: ABI = ABI::V6;
/// Where a task may write. What of /dev is read-only is so by its mount.
const WRITABLE: [&str; 4] = [WORK, HOME, TEMPORARY, "/dev"];

/// Rules that are ready to be put in force.
pub(super) struct Rules(RulesetCreated);

impl Rules {
    /// Collects them, inside the mounts that they are about.
    pub(super) fn new() -> anyhow::Result<Self> {
        let (reads, all) = (AccessFs::from_read(NEWEST), AccessFs::from_all(NEWEST));
        let rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(all)?
            .scope(Scope::from_all(NEWEST))?
            .create()?
            .add_rules(path_beneath_rules(["/"], reads))?
            .add_rules(path_beneath_rules(WRITABLE, all))
            .context("cannot collect rules on files")?;
        Ok(Self(rules))
    }

    /// Puts them in force for this process and all that it starts.
    pub(super) fn apply(self) -> std::io::Result<()> {
        self.0.restrict_self().map(drop).map_err(std::io::Error::other)
    }
}
