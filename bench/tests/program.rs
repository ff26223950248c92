//! The program itself: what it says of its scenarios. That it measures is tried by its smoke run, which uses the program that is built for
//! this test.

use std::process::Command;

#[test]
fn the_list_names_the_scenarios_and_their_cases() {
    let output = Command::new(env!("CARGO_BIN_EXE_strandline-bench")).arg("--list").output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("plain text");
    assert!(output.status.success(), "{text}");
    for name in ["append-latency", "recovery", "sweep-under-load", "governed", "fallback", "empty pool"] {
        assert!(text.contains(name), "{name} is missing: {text}");
    }
}

#[test]
fn what_is_no_option_is_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_strandline-bench")).arg("--no-such-thing").output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--no-such-thing"));
}
