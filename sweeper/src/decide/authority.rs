//! The second step of the orphan sweep: what the authority says of every reading of every name. Nothing is asked here; the questions
//! are listed, and the answers judged.

use super::candidates::{Candidate, Candidates};
use super::entry::DirectoryName;
use std::collections::{BTreeSet, HashMap};
pub use strandline::Standing;
use strandline::id::SegmentId;

/// Why the authority gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the authority did not answer: {reason}")]
pub struct AuthorityError {
    /// What it said, or that its time was up.
    pub reason: String,
}

/// Why a pass is abandoned. The sightings stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Aborted {
    /// It failed.
    #[error(transparent)]
    Failed(AuthorityError),
    /// It left questions unanswered, and a partial answer is no answer.
    #[error("the authority left {unanswered} segments unanswered, {first} among them")]
    Partial {
        /// How many.
        unanswered: usize,
        /// One of them.
        first: SegmentId,
    },
}

/// The questions of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inquiry {
    candidates: Vec<Candidate>,
    directories: usize,
    ids: Vec<SegmentId>,
}

impl Inquiry {
    /// Asks about every reading of every candidate, each id once.
    #[must_use]
    pub fn new(candidates: &Candidates) -> Inquiry {
        let ids: BTreeSet<&SegmentId> = candidates.found.iter().flat_map(|candidate| &candidate.readings).collect();
        let ids = ids.into_iter().cloned().collect();
        Inquiry { candidates: candidates.found.clone(), directories: candidates.directories, ids }
    }

    /// The ids to ask about, `ids_max` a page, at least one.
    pub fn pages(&self, ids_max: usize) -> impl Iterator<Item = &[SegmentId]> {
        self.ids.chunks(ids_max.max(1))
    }
}

/// What the authority answered, page after page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    standings: HashMap<SegmentId, Standing>,
    failed: Option<AuthorityError>,
}

impl Answers {
    /// Takes the answer to a page. Of two answers to one id the one counts that keeps the directory. Ids that nobody asked about do
    /// no harm.
    pub fn take(&mut self, page: Result<Vec<(SegmentId, Standing)>, AuthorityError>) {
        match page {
            Err(error) => self.failed = self.failed.take().or(Some(error)),
            Ok(answers) => {
                for (id, standing) in answers {
                    let kept = self.standings.entry(id).or_insert(standing);
                    *kept = standing.max(*kept);
                }
            }
        }
    }
}

/// Candidates that were asked about and that nobody accounts for. Made by [`explain`] alone: a name that was never asked about is not
/// unexplained, it is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unexplained {
    pub(super) candidates: Vec<Candidate>,
    pub(super) directories: usize,
}

impl Unexplained {
    /// The names, oldest first.
    pub fn names(&self) -> impl Iterator<Item = &DirectoryName> {
        self.candidates.iter().map(|candidate| &candidate.name)
    }
}

/// What the authority accounts for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// Names that some reading makes a segment of the authority's. Kept.
    pub known: Vec<DirectoryName>,
    /// Names of which nobody could say, each with a reading and how that stands. Kept in this pass.
    pub undecided: Vec<(DirectoryName, SegmentId, Standing)>,
    /// The rest.
    pub unexplained: Unexplained,
}

/// Which names the authority accounts for: those with a known reading, else those of which nobody could say; the others were asked
/// about and are unexplained.
///
/// # Errors
/// [`Aborted`] if a page failed or an id was not answered.
pub fn explain(inquiry: Inquiry, answers: &Answers) -> Result<Explained, Aborted> {
    if let Some(error) = &answers.failed {
        return Err(Aborted::Failed(error.clone()));
    }
    let mut unanswered = inquiry.ids.iter().filter(|id| !answers.standings.contains_key(id));
    if let Some(first) = unanswered.next() {
        let unanswered = unanswered.count().saturating_add(1);
        return Err(Aborted::Partial { unanswered, first: first.clone() });
    }
    let unexplained = Unexplained { candidates: Vec::new(), directories: inquiry.directories };
    let mut explained = Explained { known: Vec::new(), undecided: Vec::new(), unexplained };
    for candidate in inquiry.candidates {
        let standing = |id: &SegmentId| answers.standings.get(id).copied().unwrap_or(Standing::Unroutable);
        let best = candidate.readings.iter().map(|id| (standing(id), id)).max_by_key(|(standing, _)| *standing);
        match best {
            Some((Standing::Known, _)) => explained.known.push(candidate.name),
            Some((Standing::Unknown, _)) => explained.unexplained.candidates.push(candidate),
            Some((standing, id)) => explained.undecided.push((candidate.name.clone(), id.clone(), standing)),
            // A name without a reading is no candidate.
            None => {}
        }
    }
    Ok(explained)
}
