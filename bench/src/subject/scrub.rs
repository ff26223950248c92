//! Scrub: sealed segments of a log are read again, as a sweeper does.

use super::Subject;
use crate::error::{BenchError, store};
use std::time::Instant;
use strandline::id::SegmentId;
use strandline::{SegmentState, Topic};

impl Subject {
    /// Reads the sealed segments of a topic again, one after the other and from the first again, until then. Bytes a second.
    ///
    /// # Errors
    /// What the store answered, or that something is damaged.
    pub fn scrub(&self, topic: &str, until: Instant) -> Result<f64, BenchError> {
        let topic = Topic::new(topic).map_err(store("naming a topic"))?;
        let logs = self.store.inventory().map_err(store("listing segments"))?.remove(&topic).unwrap_or_default();
        let sealed: Vec<SegmentId> = logs
            .iter()
            .flat_map(|log| log.segments.iter().map(move |segment| (log, segment)))
            .filter(|(_, segment)| segment.state == SegmentState::Sealed)
            .map(|(log, segment)| SegmentId { log: log.id.clone(), seq: segment.seq })
            .collect();
        let (started, before) = (Instant::now(), self.store.counters().scrub.bytes);
        for segment in sealed.iter().cycle().take_while(|_| Instant::now() < until) {
            let scrubbed = self.store.scrub_while(segment, || Instant::now() < until);
            let rot = scrubbed.map_err(store("scrubbing"))?.map(|scrubbed| scrubbed.rot).unwrap_or_default();
            if let Some(rot) = rot.first() {
                return Err(BenchError::Store { doing: "scrubbing", reason: format!("{rot:?}") });
            }
        }
        let bytes = self.store.counters().scrub.bytes - before;
        Ok(bytes as f64 / started.elapsed().as_secs_f64())
    }
}
