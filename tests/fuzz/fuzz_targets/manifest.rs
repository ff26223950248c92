//! Fuzzes `strandline_tests::fuzzing::manifest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| strandline_tests::fuzzing::manifest::check(bytes));
