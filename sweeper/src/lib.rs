//! The sweeper: which segments go, and when. Decisions are plain functions ([`decide`]); [`pass`] carries them out, [`schedule`] says when.
#![forbid(unsafe_code)]

pub mod clock;
pub mod decide;
pub mod pass;
pub mod report;
pub mod schedule;
