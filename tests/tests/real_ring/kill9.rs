//! Kill -9, at the size that every run of the tests can afford.
//!
//! `STRANDLINE_KILLS` says how often (300), `STRANDLINE_SEED` repeats a run.

use crate::common::seed;
use std::process::Command;
use std::time::Instant;
use strandline_tests::harness::Checked;
use strandline_tests::tiers::kills::{self, KEPT, Kills, Sums};

const DIRECTORIES: u64 = 4;

/// The child: a test that does nothing unless it is told where the store is.
#[test]
fn child_that_is_killed() {
    kills::child();
}

fn command() -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["kill9::child_that_is_killed", "--exact", "--nocapture", "--quiet"]);
    command
}

/// In several directories side by side: a cycle mostly waits.
#[test]
fn what_was_acknowledged_survives_every_kill() {
    let cycles: u64 = std::env::var("STRANDLINE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    let (seed, started) = (seed("kill -9"), Instant::now());
    let live = |directory: u64| {
        let mut kills = Kills::new(seed.wrapping_add(directory), command);
        for _ in 0..cycles.div_ceil(DIRECTORIES) {
            kills.cycle()?;
        }
        kills.look_at_all()?;
        Ok(kills.sums())
    };
    std::thread::scope(|scope| {
        let lives: Vec<_> = (0..DIRECTORIES).map(|directory| scope.spawn(move || live(directory))).collect();
        for life in lives {
            let sums: Checked<Sums> = life.join().expect("nothing panics");
            let sums = sums.unwrap_or_else(|violation| panic!("{violation}"));
            println!("{sums:?} in {:.1} s", started.elapsed().as_secs_f64());
            assert!(sums.acknowledged >= cycles / DIRECTORIES, "the children did append");
        }
    });
}

#[test]
fn an_answer_before_the_write_has_completed_is_noticed_by_kills() {
    let mut kills = Kills::new(seed("kill -9 of a liar"), || Kills::with_a_defect(command()));
    let noticed = (0..100).find_map(|cycle| kills.cycle().err().map(|violation| (cycle, violation)));
    let (cycle, violation) = noticed.expect("100 kills are enough");
    println!("noticed by cycle {cycle}: {violation}");
    assert_eq!(violation.promise, KEPT, "{violation}");
}
