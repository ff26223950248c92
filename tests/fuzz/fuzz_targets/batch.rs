//! Fuzzes `strandline_tests::fuzzing::batch`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| strandline_tests::fuzzing::batch::check(bytes));
