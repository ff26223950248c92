//! Errors: every variant of every error that a caller may see is reached by a test, and the table of which is checked against the
//! source. Here are also the tests of those that no other test meets.

#[path = "../common/mod.rs"]
mod common;
mod config;
mod manifest;
mod simulated;
mod table;
mod verbs;
mod verbs_simulated;
