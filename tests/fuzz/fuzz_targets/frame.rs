//! Fuzzes `strandline_tests::fuzzing::frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| strandline_tests::fuzzing::frame::check(bytes));
