//! How many processes and threads of the task's user, as seen from here, are not the task's: RLIMIT_NPROC counts them all.

use super::super::{Level, crowd};

/// What must be added to the task's own limit, at this moment.
pub(super) fn others(level: Level) -> u64 {
    match level {
        // A user namespace counts for itself, or the worker has counted who else there is.
        Level::Bwrap => 0,
        // Nobody else has this user but `init`.
        Level::Process => 1,
        Level::None => crowd::with_room(),
    }
}
