//! Decisions: plain data and `now` in, what goes and why out. No clock, no I/O, no look at a configuration.
