//! Each lie does what a crash test has to catch.

use crate::support::*;
use strandline_disk::sim::{Lie, Loss, SimWorld, drive};
use strandline_disk::{Access, BLOCK, Disk, OpenFile, Wait};

/// What is left of `f` when its write and all its syncs were answered Ok under this lie and the power then failed.
fn left_under(lie: Option<Lie>, durable: bool) -> Option<Vec<u8>> {
    let world = SimWorld::new(1);
    lie.into_iter().for_each(|lie| world.sabotage(lie));
    let disk = world.open();
    let file = open(&disk, &disk.root(), "f", OpenFile::New, Access::Auto);
    write(&disk, &file, b'n', 0, BLOCK, durable);
    if !durable {
        sync(&disk, &file);
    }
    sync_directory(&disk, &disk.root());
    world.power_failure(Loss::DropAll);
    world.read_file("f")
}

#[test]
fn a_skipped_sync_loses_what_was_answered_durable() {
    for durable in [false, true] {
        assert_eq!(left_under(None, durable), Some(vec![b'n'; BLOCK]));
        assert_eq!(left_under(Some(Lie::SkipSync), durable), Some(Vec::new()));
        assert_eq!(left_under(Some(Lie::SkipSyncOf("f".into())), durable), Some(Vec::new()));
        assert_eq!(left_under(Some(Lie::SkipSyncOf("g".into())), durable), Some(vec![b'n'; BLOCK]));
    }
}

#[test]
fn a_skipped_directory_sync_loses_the_name() {
    assert_eq!(left_under(Some(Lie::SkipDirectorySync), true), None);
}

#[test]
fn an_early_answer_comes_before_the_bytes_which_a_crash_may_stop() {
    let (mut landed, mut lost) = (0, 0);
    for seed in 0..100 {
        let world = world_with(seed, &[b'o'; BLOCK]);
        world.sabotage(Lie::AnswerBeforeCompletion);
        let disk = world.open();
        let file = open_f(&disk);
        let content = || world.read_file("f").expect("it is there");
        write(&disk, &file, b'n', 0, BLOCK, true);
        assert_eq!((disk.in_flight(), content()), (0, vec![b'o'; BLOCK]));
        let patient = world.snapshot();
        let after = patient.open();
        for _ in 0..200 {
            after.turn(Wait::No).expect("it lives");
        }
        assert_eq!(patient.read_file("f").expect("it is there"), [b'n'; BLOCK], "without a crash it lands");
        world.kill();
        world.land_strays();
        if content() == [b'n'; BLOCK] { landed += 1 } else { lost += 1 }
    }
    assert!(landed > 20 && lost > 10, "landed {landed}, lost {lost}");
}

#[test]
fn an_honest_disk_can_be_had_back() {
    let world = world_with(1, &[b'o'; BLOCK]);
    world.sabotage(Lie::SkipSync);
    world.end_sabotage();
    let disk = world.open();
    let file = open_f(&disk);
    drive(&disk, disk.start(write_operation(&disk, &file, b'n', 0, BLOCK))).result.expect("it is written");
    sync(&disk, &file);
    assert_eq!(world.durable_file("f").expect("it is there"), [b'n'; BLOCK]);
}
