//! Trees that a hostile task leaves.
