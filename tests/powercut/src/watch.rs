//! Watch: sees what a store does by itself while it works, by looking at what it counts again and again.

use crate::verb::{Span, Verb};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use strandline::Counters;
use strandline::format::block::BLOCK_BYTES;
use strandline::format::manifest::RegionHeader;
use strandline::layout::MANIFEST_DIRECTORY;

/// How often each of these was seen.
type Counted = [(Verb, u64); 3];

/// What was seen so far.
#[derive(Debug)]
pub struct Watch {
    /// One copy of the manifest, and where its two regions start.
    manifest: File,
    starts: [u64; 2],
    first_page: u64,
    last: Counted,
    /// Events before it was counted last.
    since: u64,
    spans: Vec<Span>,
}

impl Watch {
    /// Of a store that was just opened at this root.
    ///
    /// # Errors
    /// Its manifest cannot be opened.
    pub fn new(root: &Path) -> std::io::Result<Watch> {
        let none = || std::io::Error::from(std::io::ErrorKind::NotFound);
        let copy = std::fs::read_dir(root.join(MANIFEST_DIRECTORY))?.next().ok_or_else(none)??;
        let manifest = File::open(copy.path())?;
        let starts = [0, manifest.metadata()?.len() / 2];
        let last = [(Verb::Roll, 0), (Verb::Recycle, 0), (Verb::Snapshot, 0)];
        let mut watch = Watch { manifest, starts, first_page: 0, last, since: 0, spans: Vec::new() };
        watch.first_page = watch.page();
        Ok(watch)
    }

    /// The number of the manifest's page.
    fn page(&self) -> u64 {
        let header = |start: u64| {
            let mut bytes = [0; BLOCK_BYTES];
            self.manifest.read_exact_at(&mut bytes, start).ok()?;
            RegionHeader::decode(&bytes).ok()
        };
        self.starts.into_iter().filter_map(header).map(|header| header.sequence).max().unwrap_or(0)
    }

    /// Looks again: `before` and `after` are the events of the disk around the counters.
    pub fn look(&mut self, before: u64, counters: &Counters, after: u64) {
        let pages = self.page().saturating_sub(self.first_page);
        let now = [(Verb::Roll, counters.rolls), (Verb::Recycle, counters.reused), (Verb::Snapshot, pages)];
        for ((verb, was), (_, is)) in self.last.into_iter().zip(now) {
            if is > was {
                self.spans.push(Span { verb, begun: self.since, answered: after });
            }
        }
        (self.last, self.since) = (now, before);
    }

    /// How often each was seen, and when.
    pub fn end(self) -> (Counted, Vec<Span>) {
        (self.last, self.spans)
    }
}
