//! The bytes on disk: what `docs/FORMAT.md` says, read and written.
//!
//! Pure functions between bytes and plain values. Nothing here reads a file, looks at a clock or decides what damage means.
//! Every decoder takes any bytes at all and answers with a value or a typed refusal, in time linear in the bytes.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::arithmetic_side_effects
    )
)]

#[cfg(test)]
pub(crate) mod any;
pub mod batch;
pub mod block;
pub mod checksum;
pub mod codec;
mod edit;
mod edit_bytes;
mod field;
pub mod index;
pub mod manifest;
mod policy_edit;
pub mod record;
pub mod scan;
pub mod segment;
