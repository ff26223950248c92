//! Rest: a log of which the manifest says where it ends is not looked at when the store opens, and loses nothing by it.

use strandline::config::CheckedConfig;
use strandline::format::manifest::Edit;
use strandline::manifest::state::Stage;
use strandline::shard::at_rest;
use strandline::shard::rouse::{Roused, rouse};
use strandline_disk::sim::{Loss, SimWorld, drive};
use strandline_tests::harness::edits::{clean, edit};
use strandline_tests::harness::files::{Disk, SegmentFile};
use strandline_tests::harness::machine::small;
use strandline_tests::harness::seeds::{for_each_seed, outcome};
use strandline_tests::harness::workload;
use strandline_tests::harness::{Checked, Machine, Random, Step};

const fn append(log: usize, batches: usize, bytes: usize) -> Step {
    Step::Append { log, batches, records: 2, bytes }
}

/// A closed store: log 0 with sealed segments and a live one, log 1 with one batch.
fn closed(seed: u64) -> Machine {
    let mut machine = Machine::new(seed, small());
    machine.open().expect("an open");
    let history = [Step::OpenLog(0), Step::OpenLog(1), Step::Answer, append(0, 30, 5_500), append(1, 1, 300)];
    machine.run(&history).and_then(|()| machine.apply(Step::Idle)).expect("appends");
    machine.close().expect("a clean close");
    machine
}

fn look(world: &SimWorld, config: &CheckedConfig) -> Disk {
    Disk::look(world, config).expect("a manifest")
}

/// Tells the manifest that every log that is marked rests.
fn let_rest(machine: &Machine) -> Checked<usize> {
    let edits = clean(&look(&machine.world, &machine.config));
    let count = edits.len();
    edit(&machine.world, &machine.config, None, |_| edits.into_iter().map(|edit| vec![edit]).collect())?;
    Ok(count)
}

fn live(disk: &Disk, log: &str) -> SegmentFile {
    let live = |segment: &&SegmentFile| segment.path.starts_with(log) && matches!(segment.record.stage, Stage::Live(_));
    disk.segments().iter().find(live).expect("a live segment").clone()
}

#[test]
fn cr_19_a_log_that_rests_is_opened_without_a_look_at_its_files_and_holds_what_it_held() {
    let mut machine = closed(1);
    assert_eq!(let_rest(&machine).expect("edits"), 2);
    let world = machine.world.snapshot();
    machine.open().expect("everything is there");
    let report = machine.running().report.clone();
    assert_eq!((report.logs, report.logs_clean, report.logs_recovered, report.scanned_bytes), (2, 2, 0, 0));
    let crash = Step::Kill { again_after: None };
    machine.run(&[append(0, 12, 5_500), append(1, 2, 100), Step::Answer, crash]).expect("they go on");
    assert_eq!(machine.running().report.logs_recovered, 2, "they do not rest any more");

    // Without the file of a live segment nothing is noticed before it is read.
    let mut machine = Machine::on(world, machine.config.clone(), machine.model.clone());
    machine.world.remove_file(&live(&look(&machine.world, &machine.config), "t0-").path);
    assert!(machine.start(None).expect("an open"));
    assert_eq!(machine.running().report.damaged, [""; 0]);
}

/// Stops handing `edits` in after every number of turns, loses power, and checks that the store holds all and goes on.
fn crash_within(machine: &Machine, edits: &[Edit]) {
    let mut turns = 0;
    loop {
        let image = machine.world.snapshot();
        image.reseed(turns as u64);
        let groups = edits.iter().map(|edit| vec![edit.clone()]).collect();
        let done = edit(&image, &machine.config, Some(turns), |_| groups).expect("edits");
        for loss in [Loss::DropAll, Loss::KeepAll, Loss::Random, Loss::Prefix] {
            let world = image.snapshot();
            world.power_failure(loss);
            let run = || {
                let mut machine = Machine::on(world.snapshot(), machine.config.clone(), machine.model.clone());
                machine.open()?;
                machine.run(&[append(0, 9, 5_500), append(1, 1, 90), Step::Turn(turns % 7)])?;
                machine.apply(Step::PowerFailure { loss, again_after: Some(turns) })?;
                machine.run(&[append(0, 2, 500), Step::Answer, Step::Reopen])
            };
            outcome(run).unwrap_or_else(|text| panic!("{edits:?}, {turns} turns, {loss:?}: {text}"));
        }
        if done {
            return;
        }
        turns += 1;
    }
}

#[test]
fn a_crash_before_or_after_a_log_goes_to_rest_or_leaves_it_keeps_what_was_acknowledged() {
    let machine = closed(2);
    crash_within(&machine, &clean(&look(&machine.world, &machine.config)));
    let_rest(&machine).expect("edits");
    let logs = machine.model.logs.iter().map(|log| log.id.clone());
    crash_within(&machine, &logs.map(|log| Edit::Dirty { log }).collect::<Vec<_>>());
}

#[test]
fn random_histories_with_rests_in_between_keep_every_promise() {
    let mut found = 0;
    for_each_seed(24, |seed| {
        let (mut machine, _) = workload::prepare(seed, &Default::default())?;
        let mut random = Random::new(seed ^ 0x5e57);
        for _ in 0..8 {
            for _ in 0..random.below(20) {
                let step = workload::choose(&mut random, machine.model.logs.len());
                machine.apply(step)?;
            }
            machine.apply(Step::Idle)?;
            machine.close()?;
            let rests = let_rest(&machine)?;
            if random.chance(1, 3) {
                machine.world.power_failure(workload::loss(&mut random));
            }
            machine.open()?;
            found += machine.running().report.logs_clean.min(rests);
        }
        workload::finish(&mut machine)
    });
    assert!(found > 24, "only {found} logs were found at rest");
}

/// Rouses the live segment of log 0.
fn roused(machine: &Machine) -> (Roused, SegmentFile) {
    let disk = look(&machine.world, &machine.config);
    let segment = live(&disk, "t0-");
    let of_log = &disk.state().logs[&segment.id.log];
    let (closed, dormant) = at_rest(&segment.id, &segment.record, of_log).expect("it rests");
    let on = machine.world.open();
    (drive(&on, rouse(&on, &closed, &dormant, disk.state().life)).expect("a disk without faults"), segment)
}

#[test]
fn a_log_that_is_roused_goes_on_exactly_where_it_ended() {
    let machine = closed(3);
    let_rest(&machine).expect("edits");
    let clean = look(&machine.world, &machine.config).state().logs[&machine.model.logs[0].id].clean.expect("it rests");
    // Bytes that nothing wrote there must not be taken for data behind the next append.
    let path = live(&look(&machine.world, &machine.config), "t0-").path;
    machine.world.stale(&path, clean.end_position.0 + 700, &[0x5a; 900]);
    let (roused, _) = roused(&machine);
    let Roused::Active { active } = roused else { panic!("{roused:?}") };
    assert_eq!((active.durable_end(), active.staged_end()), (clean.end_position, clean.end_position));
    assert!(active.announced && !active.is_new());
    let bytes = machine.world.read_file(&path).expect("its file");
    assert!(bytes[clean.end_position.0 as usize..].iter().all(|byte| *byte == 0), "the tail is dead");
}

#[test]
fn rot_in_a_log_that_rests_fences_it_when_it_is_roused_and_nothing_is_written_over() {
    let machine = closed(4);
    let_rest(&machine).expect("edits");
    let disk = look(&machine.world, &machine.config);
    let segment = live(&disk, "t0-");
    let all =
        strandline_tests::harness::checker::walk(disk.bytes(&segment.path).expect("its file"), segment.record.uid);
    assert!(all.last().expect("batches").1.is_mark() && all.len() > 2, "{all:?}");
    for (at, header) in all {
        let machine = Machine::on(machine.world.snapshot(), machine.config.clone(), machine.model.clone());
        machine.world.rot(&segment.path, at.0 + 30, 0x10);
        let before = machine.world.read_file(&segment.path);
        let (roused, _) = roused(&machine);
        let Roused::Damaged { closed, edit: fenced, sentences, .. } = roused else { panic!("{at}: {roused:?}") };
        let damage = &closed.loaded.as_ref().expect("it was read").damage;
        assert!(damage.iter().any(|damage| damage.position == at && damage.from == header.first), "{at}: {damage:?}");
        assert!(sentences.iter().any(|sentence| sentence.contains(&at.to_string())), "{at}: {sentences:?}");
        assert!(machine.world.read_file(&segment.path) == before, "a damaged file is kept as it is");
        machine.world.kill();
        edit(&machine.world, &machine.config, None, |_| vec![vec![fenced]]).expect("the manifest takes it");
        let state = look(&machine.world, &machine.config);
        assert_eq!(state.state().logs[&segment.id.log].clean, None);
    }
}
