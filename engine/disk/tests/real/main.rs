//! The disk on real files, seen from outside: over a ring, and over plain system calls where the environment says so
//! (`STRANDLINE_BACKEND=posix`). Each test is named as the sentence that it defends.

mod barriers;
#[allow(dead_code, reason = "some of it is for the tests of the store")]
mod child;
mod closing;
mod limits;
mod load;
#[allow(dead_code, reason = "some of it is for the tests of the store")]
mod mounted;
mod names;
mod root;
#[allow(dead_code, reason = "some of it is for the tests of the store")]
mod seccomp;
mod skipped;
mod support;
mod time;
mod transfers;
