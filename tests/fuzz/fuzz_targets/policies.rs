//! Fuzzes `strandline_tests::fuzzing::policies`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| strandline_tests::fuzzing::policies::check(bytes));
