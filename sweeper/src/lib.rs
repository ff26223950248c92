//! The sweeper: which segments go, and when. Decisions are plain functions ([`decide`]); [`pass`] and [`orphans`] carry them out, [`schedule`]
//! says when, [`Sweep::explain_log`](pass::Sweep::explain_log) says why not.
#![forbid(unsafe_code)]

mod bell;
pub mod clock;
pub mod confirmed;
mod consent;
pub mod decide;
mod entries;
mod explain;
mod forgetting;
pub mod health;
mod host;
mod kept;
mod limits;
mod list;
pub mod metrics;
pub mod orphans;
pub mod pass;
pub mod pins;
pub mod reply;
pub mod report;
mod resting;
pub mod schedule;
pub mod scrub;
pub mod stopping;
mod supervisor;
pub mod worker;
