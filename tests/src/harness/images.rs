//! Crash images: copies of a world as a crash would leave it, each recovered and checked while the original runs on.

use super::machine::{Machine, Observer};
use super::model::Model;
use super::random::Random;
use super::step::Step;
use super::violation::{Checked, Violation};
use std::cell::Cell;
use std::rc::Rc;
use strandline::config::CheckedConfig;
use strandline_disk::sim::{Loss, SimWorld};

/// What is left of every moment when everything is tried.
const LOSSES: [Loss; 4] = [Loss::DropAll, Loss::KeepAll, Loss::Random, Loss::Prefix];

/// An observer that crashes a copy of the world after every turn: by a kill, and by power failures of every kind with `seeds` seeds
/// each for those that draw. `count` counts the images.
#[must_use]
pub fn crash_at_every_turn(config: CheckedConfig, seeds: u64, count: Rc<Cell<usize>>) -> Observer {
    let mut turn = 0;
    Box::new(move |world, model| {
        turn += 1;
        for seed in 0..seeds {
            let seed = seed * 1_000_003 + turn;
            check_killed(world, model, &config, seed)?;
            count.set(count.get() + 1);
            for loss in LOSSES {
                let draws = matches!(loss, Loss::Random | Loss::Prefix);
                if seed >= 1_000_003 && !draws {
                    continue;
                }
                check_power_failure(world, model, &config, seed, loss)?;
                count.set(count.get() + 1);
            }
        }
        Ok(())
    })
}

/// Kills a copy of the process and checks what is left.
///
/// # Errors
/// The broken promise, with the moment.
pub fn check_killed(world: &SimWorld, model: &Model, config: &CheckedConfig, seed: u64) -> Checked {
    let image = world.snapshot();
    image.reseed(seed);
    image.kill();
    check(image, model, config, seed).map_err(|violation| at(violation, &format!("a kill, image seed {seed}")))
}

/// Cuts the power of a copy and checks what is left.
///
/// # Errors
/// The broken promise, with the moment.
pub fn check_power_failure(world: &SimWorld, model: &Model, config: &CheckedConfig, seed: u64, loss: Loss) -> Checked {
    let image = world.crash_image(seed, loss);
    let mut model = model.clone();
    model.power_failed();
    check(image, &model, config, seed).map_err(|violation| at(violation, &format!("{loss:?}, image seed {seed}")))
}

fn at(violation: Violation, moment: &str) -> Violation {
    Violation { seen: format!("{} (after {moment})", violation.seen), ..violation }
}

/// Checks all promises on what a crash has left: it opens, also after another crash in the middle; it holds what it must; a second
/// recovery finds the same; and every log goes on.
fn check(world: SimWorld, model: &Model, config: &CheckedConfig, seed: u64) -> Checked {
    let mut random = Random::new(seed);
    let mut machine = Machine::on(world, config.clone(), model.clone());
    for _ in 0..random.below(3) {
        let turns = random.below(60);
        let opened = machine.start(Some(turns))?;
        let loss = random.pick(&LOSSES);
        match (opened, random.chance(1, 3)) {
            (_, true) => machine.crash(|world| world.kill())?,
            (_, false) => machine.crash(|world| world.power_failure(loss))?,
        }
    }
    machine.open()?;
    let loss = random.pick(&LOSSES);
    let again = if random.chance(1, 2) {
        Step::Kill { again_after: None }
    } else {
        Step::PowerFailure { loss, again_after: None }
    };
    machine.apply(again)?;
    for log in 0..machine.model.logs.len() {
        let bytes = 200 + random.below(5_000);
        machine.run(&[Step::Append { log, batches: 2, records: 2, bytes }, Step::Turn(random.below(4))])?;
    }
    machine.apply(Step::Answer)?;
    machine.apply(if random.chance(1, 2) {
        Step::Reopen
    } else {
        Step::PowerFailure { loss: random.pick(&LOSSES), again_after: None }
    })
}
