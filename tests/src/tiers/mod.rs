//! The tiers: each kind of proof once, as cases with numbers. A test runs some of them, a campaign as many as its time allows, and the
//! number alone repeats one.

pub mod controls;
pub mod corruption;
pub mod exhaustive;
pub mod faults;
pub mod histories;
pub mod kills;
pub mod promise;
pub mod scripts;
pub mod sweeps;
pub mod tally;

pub use tally::Tally;
