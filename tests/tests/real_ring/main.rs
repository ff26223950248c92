//! The public API on real files, in temporary directories, as any user: over a ring, and over plain system calls where the
//! environment says so (`STRANDLINE_BACKEND=posix`).

mod answers;
mod append;
mod backends;
mod cases;
#[path = "../../../engine/disk/tests/real/child.rs"]
mod child;
#[path = "../common/mod.rs"]
mod common;
mod damage;
mod descriptors;
mod device;
mod files;
mod filesystems;
mod follow;
mod full_disk;
mod hosts;
mod kill9;
mod lent;
mod limits;
mod lives;
mod memory_group;
#[path = "../../../engine/disk/tests/real/mounted.rs"]
#[allow(dead_code, reason = "the disk's own tests use all of it")]
mod mounted;
mod open;
mod quotas;
mod read;
mod read_only;
mod room;
#[path = "../../../engine/disk/tests/real/seccomp.rs"]
#[allow(dead_code, reason = "the disk's own tests use the rest of it")]
mod seccomp;
#[path = "../../../engine/disk/tests/real/skipped.rs"]
mod skipped;
mod sweeps;
mod time;
