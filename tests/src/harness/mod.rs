//! The harness: a simulated machine with a store on it, a model of what the store must hold, and a checker of each promise.

pub mod change;
pub mod checker;
pub mod collect;
pub mod edits;
pub mod files;
pub mod images;
pub mod machine;
pub mod model;
pub mod random;
pub mod running;
pub mod seeds;
pub mod step;
pub mod verbs;
pub mod violation;
pub mod workload;

pub use machine::Machine;
pub use model::Model;
pub use random::Random;
pub use step::{Ask, At, Step};
pub use violation::{Checked, Violation};
