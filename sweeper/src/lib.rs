//! The sweeper: which segments and directories go, and when.
#![forbid(unsafe_code)]

pub mod decide;
