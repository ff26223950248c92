//! Fuzzes `strandline_tests::fuzzing::segment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| strandline_tests::fuzzing::segment::check(bytes));
