//! What was found by fuzzing or on the way to it, each as a saved input that is read again, under the promise that it broke.

use super::{check_named, folder};
use strandline::id::StoreId;
use strandline::manifest::page::merge;
use strandline_disk::BLOCK;
use strandline_tests::fuzzing::TARGETS;

fn again(target: &str, name: &str) {
    let of_name = TARGETS.iter().find(|of_name| of_name.name == target).expect("a target");
    check_named(of_name, &std::fs::read(folder(target).join(name)).expect("it is kept"), name);
}

/// A look-ahead of any size was taken for a reason to ask for as much memory.
#[test]
fn what_is_said_of_a_file_takes_no_memory_that_the_file_does_not_fill() {
    again("recovery", "found-a-window-larger-than-memory");
}

/// The room that is kept free for the index was taken off a size that had none.
#[test]
fn a_file_that_is_said_to_be_empty_is_surveyed() {
    again("recovery", "found-a-size-of-nothing");
}

/// The search for batches behind damage went on by nothing, for ever.
#[test]
fn a_search_without_look_ahead_comes_to_an_end() {
    again("recovery", "found-a-look-ahead-of-nothing");
}

/// The search went on to the end that was said, through the zeros of a file that had long ended.
#[test]
fn a_search_ends_with_the_file_whatever_size_is_said() {
    again("recovery", "found-a-size-that-no-file-has");
}

/// The number of the next line did not exist.
#[test]
fn the_audit_log_goes_on_behind_a_number_that_has_no_next_one() {
    again("audit", "found-a-number-without-a-next-one");
}

/// Frames that claim to lie above each other, each with a length of its own to check, took the square of the region. Names of topics can make
/// edits that look so, and what an older page left is looked at behind a newer one: it is no damage.
#[test]
fn a_region_is_not_looked_at_for_ever() {
    let mut region = vec![0; BLOCK];
    while region.len() < 4 << 20 {
        region.extend_from_slice(b"SLMF\0\0\0\0\0\0\x10\0\0\0\0\0");
    }
    let read = merge([&region, &region], StoreId(1), 2);
    assert!(read.expect("an empty page").damage.is_empty());
}
