//! Forgetting: where a host keeps the list of segments, it strikes what has expired from it, durably, before the store forgets it too. Its
//! answers are a closed set, and only two of them let bytes go.

use crate::decide::{AuthorityError, Planned};
use crate::host;
use crate::reply::Refused;
use std::collections::{HashMap, HashSet};
use std::time::Instant;
use strandline::id::SegmentId;
use strandline::{Forgotten, LogId, Store};

/// So many segments are to be forgotten at once.
const FORGOTTEN_AT_ONCE: usize = 256;

/// What a host answered of the segments that it was to forget.
#[derive(Debug, Default)]
pub(crate) struct Forgetting {
    /// Those that it must forget before they go.
    due: HashSet<SegmentId>,
    answers: HashMap<SegmentId, Forgotten>,
    /// Why there is no answer of the others.
    silent: Option<AuthorityError>,
}

impl Forgetting {
    /// Has the host forget what is due, the oldest of each log first. Behind one that it keeps it is told no more of that log,
    /// but for what stands in the same part of the list.
    pub(crate) fn of(store: &Store, due: Vec<SegmentId>, deadline: Instant) -> Forgetting {
        let mut forgetting = Forgetting { due: due.iter().cloned().collect(), ..Forgetting::default() };
        let mut stopped = HashSet::<LogId>::new();
        for page in due.chunks(FORGOTTEN_AT_ONCE) {
            let page: Vec<SegmentId> = page.iter().filter(|segment| !stopped.contains(&segment.log)).cloned().collect();
            if page.is_empty() {
                continue;
            }
            let answered = match host::forget(store, &page, deadline) {
                Ok(Some(answers)) => answers,
                Ok(None) => {
                    forgetting.silent = Some(host::no_answer("the host keeps the list of segments, and forgets none"));
                    break;
                }
                Err(error) => {
                    forgetting.silent = Some(error);
                    break;
                }
            };
            forgetting.answers.extend(answered);
            let kept = page.iter().filter(|segment| forgetting.to(segment).is_err());
            stopped.extend(kept.map(|segment| segment.log.clone()));
        }
        forgetting
    }

    /// Whether the bytes of a segment may go.
    ///
    /// # Errors
    /// Why they stay.
    pub(crate) fn to(&self, segment: &SegmentId) -> Result<(), Refused> {
        if !self.due.contains(segment) {
            return Ok(());
        }
        match self.answers.get(segment) {
            Some(Forgotten::Ok | Forgotten::NoSuchSegment) => Ok(()),
            Some(other) => Err(Refused::Kept(other.clone())),
            None => {
                let left_out = || host::no_answer("the host left it out");
                Err(Refused::Silent(self.silent.clone().unwrap_or_else(left_out)))
            }
        }
    }
}

/// What of a plan may go: behind one that stays, all of its log does.
pub(crate) fn prefix(
    planned: Vec<Planned>,
    may_go: impl Fn(&SegmentId) -> Result<(), Refused>,
    mut stays: impl FnMut(SegmentId, Refused),
) -> Vec<Planned> {
    let (mut going, mut stopped) = (Vec::new(), None::<LogId>);
    for planned in planned {
        if stopped.as_ref() == Some(&planned.segment.log) {
            continue;
        }
        match may_go(&planned.segment) {
            Ok(()) => going.push(planned),
            Err(error) => {
                stopped = Some(planned.segment.log.clone());
                stays(planned.segment, error);
            }
        }
    }
    going
}
