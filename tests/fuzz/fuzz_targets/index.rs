//! Fuzzes `strandline_tests::fuzzing::index`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| strandline_tests::fuzzing::index::check(bytes));
