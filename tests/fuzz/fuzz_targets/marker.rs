//! Fuzzes `strandline_tests::fuzzing::marker`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| strandline_tests::fuzzing::marker::check(bytes));
