//! Policies: what was answered holds after any crash and any failure of the disk, refusals change nothing, and both are audited.

#[path = "../common/mod.rs"]
mod common;
mod crashes;
mod desk;
mod random;
mod refusals;
mod surfaces;
