//! What the tests on the real ring share.

pub use strandline_tests::real::*;
