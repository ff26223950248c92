//! The harness of Strandline's tests: it drives a shard on the simulated disk by hand.
