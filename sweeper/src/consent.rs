//! Consent: where a host keeps the list of segments, what is due goes only if it may by that list. A retention pass asks before it carries
//! anything out, about all that is due; then the host forgets, and only then the store.

use crate::decide::{AuthorityError, Planned, Standing};
use crate::forgetting::Forgetting;
use crate::host::{ask, no_answer};
use crate::reply::Refused;
use std::collections::HashMap;
use std::time::Instant;
use strandline::Store;
use strandline::id::SegmentId;

/// So many segments are asked about at once.
const ASKED_AT_ONCE: usize = 256;

/// Who keeps the list, and what it says of the segments that are due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    /// The store: its own plan is enough.
    Own,
    /// A host, and this is what it said.
    Host(HashMap<SegmentId, Standing>),
    /// A host that did not answer, or not in time.
    Silent(AuthorityError),
}

impl Consent {
    /// Asks about everything that is due. Nothing is due: nobody is asked.
    pub(crate) fn ask(store: &Store, due: &[Planned], deadline: Instant) -> Consent {
        let segments: Vec<SegmentId> = due.iter().map(|planned| planned.segment.clone()).collect();
        let mut standings = HashMap::new();
        for page in segments.chunks(ASKED_AT_ONCE) {
            match ask(store, page, deadline) {
                Ok(Some(answers)) => standings.extend(answers),
                Ok(None) => return Consent::Own,
                Err(error) => return Consent::Silent(error),
            }
        }
        Consent::Host(standings)
    }

    /// Has the host forget what goes and it still knows. A store that keeps the list by itself has nobody to tell.
    pub(crate) fn forget(&self, store: &Store, going: &[Planned], deadline: Instant) -> Forgetting {
        let Consent::Host(standings) = self else { return Forgetting::default() };
        let going = going.iter().map(|planned| &planned.segment);
        let known = going.filter(|segment| standings.get(segment) == Some(&Standing::Known));
        Forgetting::of(store, known.cloned().collect(), deadline)
    }

    /// Whether a segment may go.
    ///
    /// # Errors
    /// Why it stays: it is moving, somebody has it who does not own it, or the host did not say.
    pub(crate) fn to(&self, segment: &SegmentId) -> Result<(), Refused> {
        let standings = match self {
            Consent::Own => return Ok(()),
            Consent::Silent(error) => return Err(Refused::Silent(error.clone())),
            Consent::Host(standings) => standings,
        };
        match standings.get(segment) {
            // What the host has forgotten already is what an earlier pass left when it was cut short.
            Some(Standing::Known | Standing::Unknown) => Ok(()),
            Some(other) => Err(Refused::Standing(*other)),
            None => Err(Refused::Silent(no_answer("the host left it out"))),
        }
    }
}
