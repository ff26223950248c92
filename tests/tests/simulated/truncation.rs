//! Truncation as recovery sees it: what was dropped never comes back, proves nothing, and is cleared; what stands before it stays.

use strandline::format::manifest::{Edit, ReleaseReason};
use strandline::id::{Epoch, SegmentId};
use strandline::manifest::state::{Stage, State};
use strandline::{LogId, Offset};
use strandline_disk::sim::Loss;
use strandline_tests::harness::checker;
use strandline_tests::harness::edits::edit;
use strandline_tests::harness::files::Disk;
use strandline_tests::harness::machine::small;
use strandline_tests::harness::seeds::{for_each_seed, outcome};
use strandline_tests::harness::workload;
use strandline_tests::harness::{Ask, At, Checked, Machine, Random, Step};

const fn append(batches: usize, bytes: usize) -> Step {
    Step::Append { log: 0, batches, records: 2, bytes }
}

/// The group of edits that truncates a log whose last segment holds `end`: that segment goes too when all of it lies behind the cut.
fn truncation(state: &State, log: &LogId, end: Offset) -> Vec<Edit> {
    let record = &state.logs[log];
    let mut edits = vec![Edit::Truncated { log: log.clone(), end, epoch: Epoch(record.epoch.0 + 1) }];
    for (seq, segment) in &record.segments {
        if segment.opening().is_some_and(|opening| opening.base >= end && end.0 > 0) {
            edits.push(Edit::Released {
                segment: SegmentId { log: log.clone(), seq: *seq },
                uid: segment.uid,
                generation: segment.generation,
                reason: ReleaseReason::Expired,
                hold_until_ms: 0,
            });
        }
    }
    edits
}

/// Truncates log 0 of a store that is not running to the end of one of the batches of its last segment, or to its start; the process
/// dies after `turns` turns. Tells the model what the manifest then says.
fn truncate(machine: &mut Machine, pick: usize, turns: Option<usize>, loss: Option<Loss>) -> Checked<bool> {
    let id = machine.model.logs[0].id.clone();
    let disk = Disk::look(&machine.world, &machine.config)?;
    let before = disk.state().logs[&id].epoch;
    let mut opened = disk.state().logs[&id].segments.values().filter(|segment| segment.opening().is_some());
    let Some((last, opening)) = opened.next_back().and_then(|last| Some((last, last.opening()?))) else {
        return Ok(false);
    };
    let held = &machine.model.logs[0].held;
    // A cut within a sealed segment takes a file of a newer generation, which is not made here: such a log is cut at its end.
    let is_live = matches!(last.stage, Stage::Live(_));
    let from = held.partition_point(|held| !is_live || held.first < opening.base);
    let kept = from + pick % (held.len() - from + 1);
    let end = kept.checked_sub(1).map_or(Offset(0), |last| held[last].end());
    edit(&machine.world, &machine.config, turns, |state| vec![truncation(state, &id, end)])?;
    match loss {
        Some(loss) => machine.world.power_failure(loss),
        None => machine.world.kill(),
    }
    machine.world.land_strays();
    let after = Disk::look(&machine.world, &machine.config)?.state().logs[&id].epoch;
    if after > before {
        let log = &mut machine.model.logs[0];
        log.held.truncate(kept);
        log.epoch = after.0;
        log.waiting.clear();
    }
    Ok(after > before)
}

fn filled(seed: u64) -> Machine {
    let mut machine = Machine::new(seed, small());
    machine.open().expect("an open");
    // More than may ever be in flight, so that what is dropped reaches far behind the look-ahead.
    let fill = [Step::OpenLog(0), Step::Answer, append(8, 5_000), Step::Answer, append(20, 60), Step::Idle];
    machine.run(&fill).expect("appends");
    machine.kill().expect("a kill");
    machine
}

#[test]
fn what_a_truncation_dropped_never_comes_back_wherever_the_cut_is() {
    for pick in 0..29 {
        let mut machine = filled(1);
        assert!(truncate(&mut machine, pick, None, None).expect("a truncation"));
        machine.open().unwrap_or_else(|violation| panic!("cut {pick}: {violation}"));
        let report = machine.running().report.clone();
        assert_eq!((report.damaged.len(), report.torn_bytes), (0, 0), "cut {pick}: {report:?}");
        let again = Step::PowerFailure { loss: Loss::DropAll, again_after: None };
        let goes_on =
            [again, append(3, 700), Step::Answer, Step::Kill { again_after: None }, append(1, 9), Step::Answer];
        machine.run(&goes_on).and_then(|()| machine.apply(Step::Reopen)).unwrap_or_else(|v| panic!("cut {pick}: {v}"));
    }
}

#[test]
fn a_recovery_that_dies_while_it_clears_what_was_dropped_is_finished_by_the_next_one() {
    let mut turns = 0;
    loop {
        let mut machine = filled(2);
        assert!(truncate(&mut machine, 2, None, None).expect("a truncation"));
        let opened = machine.start(Some(turns)).expect("an open");
        machine.crash(|world| world.power_failure(Loss::Random)).expect("a crash");
        machine.open().unwrap_or_else(|violation| panic!("{turns} turns: {violation}"));
        assert_eq!(machine.running().report.damaged, [""; 0], "{turns} turns");
        machine.run(&[append(9, 5_000), Step::Answer, Step::Reopen]).unwrap_or_else(|v| panic!("{turns} turns: {v}"));
        if opened {
            return;
        }
        turns += 1;
    }
}

/// All that the cut left had been durable: when it cannot be read it is rot, and is not taken for a torn end, although nothing behind it
/// proves it any more.
#[test]
fn rot_right_below_a_cut_is_damage_and_no_torn_end() {
    let mut machine = filled(3);
    assert!(truncate(&mut machine, 4, None, None).expect("a truncation"));
    let disk = Disk::look(&machine.world, &machine.config).expect("a manifest");
    let segment = &disk.segments()[0];
    let batches = checker::walk(disk.bytes(&segment.path).expect("its file"), segment.record.uid);
    machine.world.rot(&segment.path, batches[3].0.0 + 40, 1);
    let before = machine.world.read_file(&segment.path);
    assert!(machine.start(None).expect("an open"));
    let damaged = machine.running().report.damaged.join("\n");
    assert!(damaged.contains(&format!("offsets {} to {}", batches[3].1.first, batches[3].1.end)), "{damaged}");
    assert!(machine.world.read_file(&segment.path) == before, "a damaged file is kept as it is");
}

#[test]
fn random_appends_truncations_and_crashes_keep_every_promise() {
    let mut truncations = 0;
    for_each_seed(40, |seed| {
        let mut random = Random::new(seed);
        let mut machine = Machine::new(seed, workload::config_of(&mut random));
        machine.world.set_direct(!random.chance(1, 4));
        machine.open()?;
        machine.run(&[Step::OpenLog(0), Step::Answer])?;
        for _ in 0..6 {
            for _ in 0..random.below(6) {
                let bytes = random.pick(&[60, 300, 3_000, 5_500]);
                machine.apply(append(1 + random.below(6), bytes))?;
                let pause = random.pick(&[Step::Turn(3), Step::Answer, Step::Idle]);
                machine.apply(pause)?;
            }
            let loss = workload::loss(&mut random);
            machine.apply(Step::PowerFailure { loss, again_after: None })?;
            machine.run(&[Step::Turn(random.below(3))])?;
            machine.kill()?;
            let turns = random.chance(1, 3).then(|| random.below(30));
            let how = random.chance(1, 2).then(|| workload::loss(&mut random));
            truncations += usize::from(truncate(&mut machine, random.below(40), turns, how)?);
            for _ in 0..random.below(3) {
                machine.start(Some(random.below(60)))?;
                machine.crash(|world| world.power_failure(loss))?;
            }
            machine.open()?;
            let damaged = machine.running().report.damaged.clone();
            assert_eq!(damaged, [""; 0], "nothing rotted");
        }
        machine.run(&[append(2, 900), Step::Idle, Step::Reopen])
    });
    assert!(truncations > 40, "{truncations} truncations");
}

/// Found by seed 100 of the histories of 1,000 operations: a stamp an hour ahead was dropped, and still made the next one true time, which
/// was before that of the batch in front of it.
#[test]
fn a_stamp_that_was_dropped_does_not_turn_the_time_back() {
    let append = Step::Append { log: 0, batches: 1, records: 2, bytes: 300 };
    let mut machine = Machine::new(40, small());
    let run = outcome(|| {
        machine.open()?;
        machine.run(&[Step::OpenLog(0), Step::Answer, Step::Jump(120_000), append, Step::Answer])?;
        machine.run(&[Step::Jump(3_600_000), append, Step::Answer, Step::Jump(-3_720_000)])?;
        machine.run(&[Step::Verb { log: 0, ask: Ask::Truncate(At::Back(2)) }, Step::Answer, append, Step::Answer])?;
        machine.run(&[Step::Reopen])
    });
    run.unwrap_or_else(|text| panic!("{text}"));
    assert_eq!(machine.model.logs[0].held.len(), 2);
}

#[test]
fn a_log_that_was_cut_at_its_start_ends_there_although_older_segments_wait_to_be_given_up() {
    let mut machine = Machine::new(6, small());
    machine.open().expect("an open");
    machine.run(&[Step::OpenLog(0), Step::Answer, append(30, 5_500), Step::Idle]).expect("appends");
    machine.close().expect("a clean close");
    let (id, end) = (machine.model.logs[0].id.clone(), machine.model.logs[0].end());
    let group = |state: &State| {
        let log = &state.logs[&id];
        let mut group = vec![Edit::StartOffset { log: id.clone(), start: end, epoch: log.epoch }];
        group.push(Edit::Truncated { log: id.clone(), end, epoch: Epoch(log.epoch.0 + 1) });
        // As when the first one was being shrunk.
        for (seq, segment) in log.segments.iter().skip(1) {
            let (segment, uid, generation) =
                (SegmentId { log: id.clone(), seq: *seq }, segment.uid, segment.generation);
            group.push(Edit::Released { segment, uid, generation, reason: ReleaseReason::Expired, hold_until_ms: 0 });
        }
        vec![group]
    };
    edit(&machine.world, &machine.config, None, group).expect("edits");
    for first in [end, end.plus(2)] {
        assert!(machine.start(None).expect("an open"));
        let pending = machine.running().open_log(id.clone()).expect("room");
        machine.apply(Step::Turn(60)).expect("turns");
        let opened = { pending }.try_take().expect("an answer").expect("the log");
        let bounds = opened.shared.bounds();
        assert_eq!((bounds.start, bounds.end), (end, first));
        machine.running().opened.insert(0, (0, opened));
        machine.apply(Step::Idle).expect("what lies below the start goes");
        let model = strandline_tests::harness::Model::default();
        let batch = strandline_tests::harness::machine::batch_of(900 + first.0, 2, 300);
        assert!(machine.running().append((0, 900 + first.0), batch, strandline::Level::Durable, &model));
        let mut answer = machine.running().appends.pop().expect("the append").answer;
        machine.apply(Step::Turn(60)).expect("turns");
        assert_eq!(answer.try_take().expect("an answer").expect("an append").first, first);
        machine.crash(|world| world.kill()).expect("it dies");
    }
}
