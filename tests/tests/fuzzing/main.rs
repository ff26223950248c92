//! The bodies of the fuzz targets over the saved corpus, and over random changes of it.
//!
//! `tests/fuzz/corpus/TARGET` holds a few small inputs of each target: what `seeds.rs` makes
//! (`cargo test -p strandline-tests --test fuzzing -- --ignored`) and, as `found-...`, what once was found: see `found.rs`.

mod found;
#[path = "../common/memory.rs"]
mod memory;
mod seeds;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use strandline_tests::fuzzing::mutation::mutated;
use strandline_tests::fuzzing::{BYTES_PER_BYTE, TARGETS, Target};
use strandline_tests::harness::Random;
use strandline_tests::harness::seeds::seeds;

#[global_allocator]
static MEMORY: memory::Counting = memory::Counting;

/// How many changes of its corpus each target gets.
const CHANGES: usize = 400;

/// The most that the corpus of all targets may hold.
const CORPUS_FILES_MAX: usize = 80;
const CORPUS_BYTES_MAX: usize = 200 << 10;

fn folder(target: &str) -> PathBuf {
    PathBuf::from("fuzz").join("corpus").join(target)
}

/// The saved inputs of a target by their names.
fn corpus(target: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder(target)).expect("each target has a corpus");
    let files = entries.map(|entry| entry.expect("an entry").path());
    let read = |path: PathBuf| {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        (name, std::fs::read(path).expect("a saved input"))
    };
    files.map(read).collect()
}

/// Runs a body, and looks at how much memory it asked for at once.
fn check(target: &Target, input: &[u8]) {
    let largest = memory::largest_request(|| (target.check)(input));
    let most = target.bytes_max + BYTES_PER_BYTE * input.len();
    assert!(largest <= most, "{largest} bytes at once for an input of {}; {most} are justified", input.len());
}

/// Runs a body, and says which input it was where that fails.
fn check_named(target: &Target, input: &[u8], what: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(target, input))) {
        eprintln!("target {}, {what}: {}", target.name, input.escape_ascii());
        resume_unwind(panic);
    }
}

#[test]
fn every_saved_input_keeps_every_promise() {
    for target in &TARGETS {
        check_named(target, &[], "nothing at all");
        for (name, input) in corpus(target.name) {
            check_named(target, &input, &name);
        }
    }
}

#[test]
fn random_changes_of_saved_inputs_keep_every_promise() {
    let seed = *seeds(4).last().expect("a seed");
    eprintln!("STRANDLINE_SEED={seed}");
    for target in &TARGETS {
        let mut random = Random::new(seed);
        let inputs: Vec<Vec<u8>> = corpus(target.name).into_values().collect();
        for change in 0..CHANGES {
            let (input, other) = (random.below(inputs.len()), random.below(inputs.len()));
            let input = mutated(&mut random, &inputs[input], &inputs[other]);
            check_named(target, &input, &format!("change {change}"));
        }
    }
}

#[test]
fn the_corpus_is_small_and_every_target_has_one() {
    let saved: Vec<_> = TARGETS.iter().flat_map(|target| corpus(target.name)).collect();
    let bytes: usize = saved.iter().map(|(_, input)| input.len()).sum();
    assert!(saved.len() <= CORPUS_FILES_MAX && bytes <= CORPUS_BYTES_MAX, "{} files, {bytes} bytes", saved.len());
    assert!(TARGETS.iter().all(|target| !corpus(target.name).is_empty()));
    let programs = std::fs::read_dir("fuzz/fuzz_targets").expect("the programs").count();
    assert_eq!(programs, TARGETS.len(), "each target has a program");
}
