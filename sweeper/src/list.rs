//! The list of segments that an orphan sweep goes by: what the manifest lists, or what the host says.

use crate::decide::{self, Answers, Authority, Explained, Inquiry, LiveSet, Ready, Skipped};
use crate::host::HostKeeps;
use std::collections::{HashMap, HashSet};
use strandline::ListedSegments;
use strandline::id::{SegmentId, Uid};

/// What the manifest lists, and who has the say.
pub(crate) struct List {
    /// What it lists, what is being made, and what it has given up and not removed yet.
    segments: HashSet<SegmentId>,
    pub(crate) uids: HashMap<Uid, SegmentId>,
    count: u64,
    host: bool,
}

impl List {
    pub(crate) fn new(listed: &ListedSegments, host: bool) -> List {
        let ids = listed.segments.iter().map(|(id, _)| id).chain(&listed.leaving).chain(&listed.making);
        let uids = listed.segments.iter().map(|(id, uid)| (*uid, id.clone())).collect();
        List { segments: ids.cloned().collect(), uids, count: listed.segments.len() as u64, host }
    }

    pub(crate) fn authority(&self) -> Authority<'_> {
        if self.host { Authority::Host } else { Authority::Own { known: &self.segments } }
    }

    /// Whom nobody needs to look into.
    pub(crate) fn known(&self) -> Option<&HashSet<SegmentId>> {
        (!self.host).then_some(&self.segments)
    }

    /// The segment of a candidate that the manifest lists.
    pub(crate) fn has<'a>(&self, ready: &'a Ready) -> Option<&'a SegmentId> {
        ready.candidate.readings.iter().find(|id| self.segments.contains(id))
    }

    /// Asks about all candidates, and judges the answers.
    pub(crate) fn explain(&self, keeps: &HostKeeps<'_>, found: &decide::Candidates) -> Result<Explained, Skipped> {
        let inquiry = Inquiry::new(found);
        let mut answers = Answers::default();
        let standing = |id: &SegmentId| match self.segments.contains(id) {
            true => decide::Standing::Known,
            false => decide::Standing::Unknown,
        };
        for page in inquiry.pages(keeps.at_once) {
            answers.take(match self.host {
                true => keeps.standings(page),
                false => Ok(page.iter().map(|id| (id.clone(), standing(id))).collect()),
            });
        }
        // In mode host nobody counts for us: a host that knows none of all that it was asked about looks like one that lost its list.
        let explained = decide::explain(inquiry, &answers)?;
        let segments = if self.host { explained.known.len() as u64 } else { self.count };
        let asked = if self.host { found.found.len() } else { found.directories };
        decide::check_authority(LiveSet { complete: true, segments }, asked)?;
        Ok(explained)
    }
}
