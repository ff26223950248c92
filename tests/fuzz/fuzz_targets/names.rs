//! Fuzzes `strandline_tests::fuzzing::names`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| strandline_tests::fuzzing::names::check(bytes));
