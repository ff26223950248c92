//! The decisions of the sweeper: every sentence of the rules that says never, always or exactly, the cases that users met, and random
//! histories of whole stores.
#![forbid(unsafe_code)]

mod cases_of_orphans;
mod cases_of_retention;
mod common;
mod histories;
mod orphan_properties;
mod plan_properties;
mod retention_properties;
mod world;
