//! The public API on the real ring, in temporary directories, as any user.

mod answers;
mod append;
#[path = "../common/mod.rs"]
mod common;
mod damage;
mod files;
mod follow;
mod hosts;
mod lent;
mod open;
mod read;
mod room;
mod time;
