//! What a test cannot try here, for want of a privilege, a program or a file system.

/// Says why something is not tried. Where `STRANDLINE_SKIP=deny` says that nothing may be left out, the test fails.
pub fn skipped(why: impl std::fmt::Display) {
    let denied = std::env::var_os("STRANDLINE_SKIP").is_some_and(|said| said == "deny");
    assert!(!denied, "STRANDLINE_SKIP=deny, and this cannot be tried here: {why}");
    eprintln!("skipped: {why}");
}
