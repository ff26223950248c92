//! Load: the script that runs while something fails. It goes on whatever is refused.

use super::job::{Answer, Job};
use super::model::{Model, Went};
use super::plan::End;
use super::session::Session;
use crate::content::{LOGS, LONG};
use std::time::Duration;
use strandline::Level;

/// The log that is at rest until the first part of the script has ended.
const QUIET: usize = LOGS - 1;

/// Longer than it takes until a log counts as at rest.
const REST: Duration = Duration::from_millis(40);

/// Makes a store with something in every log.
pub fn make(job: &Job) -> Answer {
    let models: Vec<Model> = (0..LOGS).map(|log| Model::new(LONG + log)).collect();
    let mut session = Session::new(job, &models);
    session.strict = true;
    session.open();
    for (log, batches) in [(0, 24), (1, 10), (2, 6), (QUIET, 4)] {
        session.open_log(log);
        session.append(log, batches, Level::Durable);
    }
    session.seal(1);
    std::thread::sleep(REST);
    session.close(Went::Lost);
    session.answer
}

/// Runs the script.
pub fn load(job: &Job, models: &[Model], (once, drops): (bool, bool), end: End) -> Answer {
    let mut session = Session::new(job, models);
    let unclean = if drops { Went::Lost } else { Went::Killed };
    if session.open() {
        first_part(&mut session);
        quiet(&mut session, once);
        session.close(unclean);
    }
    for _ in 0..2 {
        // A fault that was over before this cannot be why anything is refused behind it.
        session.strict = once && session.struck() > 0;
        if session.open() {
            second_part(&mut session);
            break;
        }
    }
    match end {
        End::Close => session.close(unclean),
        End::Kill | End::PowerAll | End::PowerSome => {
            // The process ends with these in flight.
            for log in [0, 1] {
                session.start(log, 4, Level::Durable);
            }
            session.leave(if end == End::Kill { unclean } else { Went::Lost });
        }
    }
    session.answer
}

fn first_part(session: &mut Session<'_>) {
    (0..LOGS).for_each(|log| session.open_log(log));
    let together = [(0, 8, Level::Durable), (1, 4, Level::Written), (2, 3, Level::Accepted)];
    let waiting = together.map(|(log, batches, level)| (log, session.start(log, batches, level)));
    for (log, waiting) in waiting {
        session.finish(log, waiting);
    }
    session.read(0);
    session.append(0, 12, Level::Durable);
    session.append(1, 8, Level::Durable);
    session.seal(1);
    session.truncate(0, 2);
    session.append(0, 2, Level::Durable);
    session.trim(0, 9);
    session.delete_oldest(1);
    session.append(1, 4, Level::Written);
    session.delete(2);
    session.open_log(2);
    session.append(2, 2, Level::Durable);
    (0..QUIET).for_each(|log| drop(session.read(log)));
    session.verify(1);
    std::thread::sleep(REST);
}

/// The log that was at rest while the fault struck, once and elsewhere, goes on.
fn quiet(session: &mut Session<'_>, once: bool) {
    let over = once && session.struck() > 0;
    let told = session.answer.refusals.len();
    if session.append(QUIET, 1, Level::Durable) == 0 && over {
        let last = session.answer.refusals.get(told..).and_then(|told| told.last().cloned());
        session.answer.quiet = Some(last.unwrap_or_else(|| "it was refused, or not open".to_owned()));
    }
}

fn second_part(session: &mut Session<'_>) {
    (0..LOGS).for_each(|log| session.open_log(log));
    let waiting = [0, 1, 2, QUIET].map(|log| (log, session.start(log, 4, Level::Durable)));
    for (log, waiting) in waiting {
        session.finish(log, waiting);
    }
    (0..LOGS).for_each(|log| drop(session.read(log)));
    session.trim(0, 4);
    session.seal(2);
    session.append(2, 2, Level::Durable);
}
