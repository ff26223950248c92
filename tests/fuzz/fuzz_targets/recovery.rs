//! Fuzzes `strandline_tests::fuzzing::recovery`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| strandline_tests::fuzzing::recovery::check(bytes));
