//! The tiers of a campaign, at the size that every run of the tests can afford: samples that a printed seed draws.

use strandline_tests::harness::Random;
use strandline_tests::harness::seeds::{for_each_seed, outcome, seeds};
use strandline_tests::tiers::corruption::Stores;
use strandline_tests::tiers::exhaustive::{self, Width};
use strandline_tests::tiers::histories::{self, WHOLE};

#[test]
fn histories_of_a_thousand_operations_keep_every_promise() {
    for_each_seed(100, |seed| histories::run(seed, WHOLE, &histories::twist_of(seed)).map(drop));
}

#[test]
fn long_histories_go_the_same_way_twice() {
    for seed in 0..6 {
        histories::run_twice(seed, WHOLE, &histories::twist_of(seed)).expect("an honest history");
    }
}

/// A few moments of a few sequences: all of them are a campaign's.
#[test]
fn short_sequences_keep_every_promise_in_some_crashes() {
    let width = Width { all_subsets_of: 6, seeded_subsets: 8, one_in: 5 };
    let seed = *seeds(4).last().expect("a seed");
    eprintln!("STRANDLINE_SEED={seed}");
    let mut random = Random::new(seed);
    let mut crashes = 0;
    for _ in 0..24 {
        let number = random.below(exhaustive::cases() as usize) as u64;
        let run = outcome(|| {
            crashes += exhaustive::run(number, width, None)?.crashes;
            Ok(())
        });
        run.unwrap_or_else(|text| panic!("STRANDLINE_SEED={seed}, case {number}: {text}"));
    }
    eprintln!("{crashes} crashes");
    assert!(crashes > 100);
}

/// A case is a number: each has its own, and the last is the longest.
#[test]
fn every_sequence_has_a_number() {
    let mut all: Vec<String> =
        (0..exhaustive::cases()).map(|number| format!("{:?}", exhaustive::case(number))).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len() as u64, 2 * (7 + 49 + 343));
    assert_eq!(exhaustive::case(exhaustive::cases() - 1).sequence.len(), 3);
}

/// Some bits and some lengths of every file, the manifest's as well.
#[test]
fn what_is_intact_can_be_read_whatever_is_damaged() {
    let stores = Stores::new(None).expect("an honest history");
    let seed = *seeds(4).last().expect("a seed");
    eprintln!("STRANDLINE_SEED={seed}, of {} cases", stores.cases());
    let mut random = Random::new(seed);
    for place in 0..3_000 {
        let limit = if place % 3 == 0 { stores.cases() } else { stores.cases_beside_the_manifest() };
        let number = random.below(limit as usize) as u64;
        outcome(|| stores.run(number).map(drop)).unwrap_or_else(|text| panic!("STRANDLINE_SEED={seed}: {text}"));
    }
}
