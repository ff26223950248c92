//! The harness of Strandline's tests: it drives a shard on the simulated disk by hand, beside a model that cannot be wrong.
//!
//! Nothing here waits, sleeps or starts a thread. What a run does follows from its seed alone.
#![forbid(unsafe_code)]

pub mod harness;
