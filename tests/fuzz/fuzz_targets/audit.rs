//! Fuzzes `strandline_tests::fuzzing::audit`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| strandline_tests::fuzzing::audit::check(bytes));
