//! Fuzzes `strandline_tests::fuzzing::scan`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| strandline_tests::fuzzing::scan::check(bytes));
