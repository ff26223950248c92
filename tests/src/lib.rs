//! The harness of Strandline's tests: it drives a shard on the simulated disk by hand, beside a model that cannot be wrong.
//!
//! In `harness` nothing waits, sleeps or starts a thread: what a run does follows from its seed alone. `tiers` are the kinds of proof that are
//! made of it, each once: the tests run them at a small size, the command `strandline-campaign` at any; `record` keeps what was run. `real` is
//! for the real ring. `fuzzing` has what any bytes from a disk must not break.
#![forbid(unsafe_code)]

pub mod fuzzing;
pub mod harness;
pub mod real;
pub mod record;
pub mod tiers;
