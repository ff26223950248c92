//! Leave: files that the manifest has given up are removed, or used again, when nobody reads them any more.

use super::command::LogNumber;
use super::shard::{Event, Shard};
use super::siblings::UntilGone;
use crate::format::manifest::ReleaseReason;
use crate::format::segment::DATA_START;
use crate::id::{Generation, SegmentId, Seq, Uid};
use crate::manifest::state::ReleasedRecord;
use crate::removal::release::{self, Blocks, Given, Removing};
use crate::segment::active::{Active, PreparedFile};
use crate::segment::closed::Closed;
use crate::segment::unopened::Unopened;
use std::time::Duration;
use strandline_disk::{BLOCK, Disk, File, transfer};

/// How often it is looked whether somebody still reads a file that is to be used again.
const READERS_LOOK: Duration = Duration::from_millis(1);

/// A file that a log gives up.
#[derive(Clone, Debug)]
pub(super) struct Leaving {
    pub(super) seq: Seq,
    pub(super) uid: Uid,
    pub(super) generation: Generation,
    /// What is known of its blocks.
    blocks: Option<Blocks>,
    /// Where it is open: reads that were started may still hold it.
    file: Option<File>,
}

impl From<&Closed> for Leaving {
    fn from(closed: &Closed) -> Leaving {
        let Closed { uid, generation, size, anchored, sealed, logical_bytes, .. } = *closed;
        let file = closed.loaded.as_ref().map(|loaded| loaded.file.clone());
        // A sealed file is written up to the end of its data, and behind that only where index and footer stand.
        let data_end = DATA_START.plus(logical_bytes as usize).block_ceiling(BLOCK).0;
        let written = sealed.then_some(Blocks { size, written_to: data_end.min(size) });
        Leaving { seq: closed.id.seq, uid, generation, blocks: whole(anchored, size).or(written), file }
    }
}

impl From<&Active> for Leaving {
    fn from(active: &Active) -> Leaving {
        let Active { uid, generation, size, anchored, .. } = *active;
        let file = Some(active.file.clone());
        Leaving { seq: active.id.seq, uid, generation, blocks: whole(anchored, size), file }
    }
}

impl From<&PreparedFile> for Leaving {
    fn from(prepared: &PreparedFile) -> Leaving {
        let PreparedFile { uid, generation, size, anchored, .. } = *prepared;
        let file = Some(prepared.file.clone());
        Leaving { seq: prepared.id.seq, uid, generation, blocks: whole(anchored, size), file }
    }
}

impl From<&Unopened> for Leaving {
    fn from(unopened: &Unopened) -> Leaving {
        let Unopened { uid, generation, size, written, .. } = *unopened;
        Leaving { seq: unopened.id.seq, uid, generation, blocks: whole(written, size), file: None }
    }
}

fn whole(anchored: bool, size: u64) -> Option<Blocks> {
    anchored.then_some(Blocks { size, written_to: size })
}

/// One that is only removed, whatever it holds.
impl From<(Seq, Uid, Generation)> for Leaving {
    fn from((seq, uid, generation): (Seq, Uid, Generation)) -> Leaving {
        Leaving { seq, uid, generation, blocks: None, file: None }
    }
}

impl<D: Disk> Shard<D> {
    /// Gives the bytes of files that the manifest has given up back to the pool or to the file system, in the background.
    pub(super) fn remove_files(&mut self, number: LogNumber, gone: impl IntoIterator<Item = Leaving>) {
        let log = self.logs[number.0].id.clone();
        let (mut given, mut open) = (Vec::new(), Vec::new());
        for Leaving { seq, uid, generation, blocks, file } in gone {
            let segment = SegmentId { log: log.clone(), seq };
            let record = ReleasedRecord { segment, generation, reason: ReleaseReason::Expired, hold_until_ms: 0 };
            given.push(Given { uid, record, blocks });
            // A file that is only unlinked stays readable for whoever has it open.
            open.extend(file.filter(|_| blocks.is_some()));
        }
        self.remove_when_unread(given, open);
    }

    /// Removes released files in the background.
    pub fn remove(&mut self, released: Vec<Given>) {
        self.remove_when_unread(released, Vec::new());
    }

    fn remove_when_unread(&mut self, released: Vec<Given>, open: Vec<File>) {
        if released.is_empty() {
            return;
        }
        let (disk, edits, store) = (self.disk.clone(), self.edits.clone(), self.store);
        let siblings = self.siblings.clone();
        siblings.going.note(released.iter().map(|given| (given.uid, &given.record)));
        let until_gone = UntilGone { siblings: siblings.clone(), released: released.clone() };
        self.spawn(async move {
            until_unread(&disk, open).await;
            let removing = Removing { store, spares: &siblings.spares };
            let result = release::remove_all(&disk, &edits, removing, released).await;
            drop(until_gone);
            Event::Removed(result)
        });
    }
}

/// Waits until the reads that were started have ended. No new ones come: the log does not know these files any more.
async fn until_unread<D: Disk>(disk: &D, open: Vec<File>) {
    for file in open {
        while file.holders() > 1 {
            // A disk that does not even wait answers for the reads, too.
            if transfer::sleep(disk, READERS_LOOK).await.is_err() {
                return;
            }
        }
    }
}
