//! Look: opens a store after the fault has ended, and compares all that is there with what may be. Whatever is refused now is wrong.

use super::job::{Answer, Job};
use super::model::{Model, Went};
use super::session::Session;
use crate::check::{misplaced, read};
use strandline::Level;
use strandline_tests::tiers::promise::{Broken, Promise};

/// Batches that each log takes in the end.
const MORE: usize = 2;

/// Looks at all logs, and has each go on.
pub fn look(job: &Job, models: &[Model], closes: bool) -> Answer {
    let mut session = Session::new(job, models);
    session.strict = true;
    if !session.open() {
        return session.answer;
    }
    for log in 0..models.len() {
        look_at(&mut session, log);
        go_on(&mut session, log);
    }
    match session.store().map(misplaced) {
        Some(Ok(wrong)) => wrong.into_iter().for_each(|wrong| session.violated(Broken::new(Promise::Placed, wrong))),
        Some(Err(error)) => session.violated(Broken::new(Promise::GoesOn, error)),
        None => {}
    }
    if closes {
        session.close(Went::Lost);
    } else {
        session.leave(Went::Lost);
    }
    session.answer
}

fn look_at(session: &mut Session<'_>, which: usize) {
    session.find_log(which);
    session.answer.checked += session.model(which).sure();
    let of = session.model(which).log();
    let found = match session.log(which).map(|log| read(&log, of)).transpose() {
        Ok(found) => found,
        Err(error) => return session.violated(error.broken().of(format_args!("log {which}"))),
    };
    match session.model(which).allows(found.as_ref()) {
        Ok(()) => session.model(which).is(found.as_ref()),
        Err(broken) => session.violated(broken.of(format_args!("log {which}"))),
    }
}

fn go_on(session: &mut Session<'_>, which: usize) {
    session.verify(which);
    session.open_log(which);
    session.append(which, MORE, Level::Durable);
    session.read(which);
}
