//! Sabotages: each deliberate defect must be noticed by the tiers that the table names, on runs that pass without it.

use strandline::config::Sabotage;
use strandline_disk::sim::Lie;
use strandline_tests::tiers::controls::{self, By, Control, Defect, Tier};

/// Runs the rows of a defect that the simulation can run.
fn is_noticed(defect: &Defect, tier: Tier) {
    let is_wanted = |control: &Control| control.defect == *defect && control.tier() == Some(tier);
    let rows: Vec<Control> = controls::table().into_iter().filter(is_wanted).collect();
    assert!(!rows.is_empty(), "the table has no row for {defect} in {tier:?}");
    for control in rows {
        let noticed = controls::run(&control, || unreachable!("nothing is killed here"));
        let by = noticed.unwrap_or_else(|text| panic!("{defect} on {:?}: {text}", control.twist));
        eprintln!("{defect}: {by}");
    }
}

fn engine(sabotage: Sabotage, tier: Tier) {
    is_noticed(&Defect::Engine(sabotage), tier);
}

fn disk(lie: Lie, tier: Tier) {
    is_noticed(&Defect::Disk(lie), tier);
}

#[test]
fn every_defect_and_every_tier_is_in_the_table() {
    assert_eq!(controls::missing(), [""; 0]);
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for control in controls::table() {
        let By::Test(file, name) = control.by else { continue };
        let source = std::fs::read_to_string(root.join(file)).expect("the file that the table names");
        assert!(source.contains(&format!("fn {name}()")), "{file} has no test {name}");
    }
}

#[test]
fn without_any_sync_acknowledged_records_are_lost_and_it_is_noticed() {
    disk(Lie::SkipSync, Tier::T1);
    engine(Sabotage::SkipFlush, Tier::T1);
    engine(Sabotage::SkipFlush, Tier::T1b);
}

#[test]
fn without_directory_syncs_files_are_lost_and_it_is_noticed() {
    disk(Lie::SkipDirectorySync, Tier::T1);
    engine(Sabotage::SkipDirectorySync, Tier::T1);
    engine(Sabotage::SkipDirectorySync, Tier::T1b);
}

#[test]
fn without_a_synced_manifest_segments_are_lost_and_it_is_noticed() {
    disk(Lie::SkipSyncOf("manifest".to_owned()), Tier::T1);
}

#[test]
fn what_recovery_shows_and_does_not_make_durable_is_noticed() {
    engine(Sabotage::TrustPageCache, Tier::T1);
}

#[test]
fn a_log_that_is_cut_at_the_first_bad_checksum_is_noticed() {
    engine(Sabotage::TruncateOnBadChecksum, Tier::T6);
}

#[test]
fn a_record_before_the_manifest_edit_is_noticed() {
    engine(Sabotage::RecordBeforeEdit, Tier::Scripts);
}

#[test]
fn a_dead_tail_that_is_kept_is_noticed() {
    engine(Sabotage::KeepDeadTail, Tier::Scripts);
}

/// Over blocks that were never written, over the page cache, and where a barrier covers only its own file.
#[test]
fn a_barrier_for_files_that_it_does_not_cover_is_noticed() {
    engine(Sabotage::BarrierForAll, Tier::Scripts);
}

#[test]
fn a_barrier_that_is_skipped_is_noticed() {
    disk(Lie::SkipBarrier, Tier::Scripts);
}

#[test]
#[ignore = "takes a minute: the table of controls in .ci/full has it"]
fn a_roll_before_its_segment_is_flushed_is_noticed() {
    engine(Sabotage::RollBeforeFlush, Tier::Scripts);
}

#[test]
fn a_truncation_that_is_answered_before_its_edit_is_noticed() {
    engine(Sabotage::CutBeforeEdit, Tier::Scripts);
}

#[test]
fn bytes_that_go_before_the_manifest_knows_that_they_were_given_up_are_noticed() {
    engine(Sabotage::ReleaseBeforeEdit, Tier::Scripts);
}

#[test]
fn a_write_before_the_manifest_knows_that_its_log_is_dirty_is_noticed() {
    engine(Sabotage::WriteBeforeDirty, Tier::Scripts);
}

#[test]
fn an_acknowledgement_before_the_write_has_completed_is_noticed() {
    disk(Lie::AnswerBeforeCompletion, Tier::T1);
    for tier in [Tier::T1, Tier::T1b, Tier::T5] {
        engine(Sabotage::AnswerBeforeCompletion, tier);
    }
}
