//! The sweeper over damaged stores, at the size that every run of the tests can afford.

use crate::common::seed;
use strandline_tests::harness::seeds::outcome;
use strandline_tests::tiers::sweeps::{KEPT, Sweeps};

const CASES: u64 = 60;

#[test]
fn no_live_segment_is_swept_whatever_is_damaged() {
    let (sweeps, seed) = (Sweeps::new().expect("an honest history"), seed("sweeps"));
    for number in (0..CASES).map(|place| seed.wrapping_add(place) % sweeps.cases()) {
        let run = outcome(|| sweeps.run(number));
        run.unwrap_or_else(|violation| panic!("strandline-campaign t6-sweep --from {number} --seeds 1: {violation}"));
    }
}

/// The controls: retention takes what is due, and the search for orphans what somebody brought back behind that.
#[test]
fn a_live_segment_that_is_swept_is_noticed() {
    for (sweeps, by) in [(Sweeps::too_late(), "retention takes"), (Sweeps::brought_back(), "given up as orphans")] {
        let sweeps = sweeps.expect("an honest history");
        let noticed = (0..3).find_map(|number| outcome(|| sweeps.run(number)).err()).expect("what is due goes");
        println!("{noticed}");
        assert!(noticed.promise == KEPT && noticed.seen.contains(by), "{noticed}");
    }
}
