//! Leave: files that the manifest has given up are removed, or used again, when nobody reads them any more.

use super::command::LogNumber;
use super::shard::{Event, Shard};
use crate::format::manifest::ReleaseReason;
use crate::format::segment::DATA_START;
use crate::id::{Generation, SegmentId, Seq, Uid};
use crate::manifest::state::ReleasedRecord;
use crate::removal::going::Outgoing;
use crate::removal::inbox::Inbox;
use crate::removal::release::{Blocks, Given};
use crate::segment::active::{Active, PreparedFile};
use crate::segment::closed::Closed;
use crate::segment::unopened::Unopened;
use std::time::Duration;
use strandline_disk::{BLOCK, Disk, File, transfer};

/// How often it is looked whether somebody still reads a file that was given up.
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
    /// Hands files that the manifest has given up to the one that removes them, each when nobody reads it any more.
    pub(super) fn remove_files(&mut self, number: LogNumber, gone: impl IntoIterator<Item = Leaving>) {
        let log = self.logs[number.0].id.clone();
        let exchange = self.siblings.removal.clone();
        let outgoing = gone.into_iter().map(|Leaving { seq, uid, generation, blocks, file }| {
            let segment = SegmentId { log: log.clone(), seq };
            let record = ReleasedRecord { segment, generation, reason: ReleaseReason::Expired, hold_until_ms: 0 };
            (Outgoing::new(Given { uid, record, blocks }, &exchange.going), file)
        });
        let outgoing: Vec<_> = outgoing.collect();
        let disk = self.disk.clone();
        self.spawn(async move {
            leave_when_unread(&disk, &exchange.inbox, outgoing).await;
            Event::Left
        });
    }
}

/// Puts each file into the inbox when the reads of it that were started have ended. No new ones come: the log does not know these
/// files any more. What is cut off a file, or written into its next life, must not be met by a read of this one.
async fn leave_when_unread<D: Disk>(disk: &D, inbox: &Inbox<Outgoing>, mut outgoing: Vec<(Outgoing, Option<File>)>) {
    loop {
        let is_unread = |(_, file): &mut (_, Option<File>)| file.as_ref().is_none_or(|file| file.holders() == 1);
        inbox.put(outgoing.extract_if(.., is_unread).map(|(unread, _)| unread));
        // A disk that does not even wait answers no reads either: the next open removes the rest.
        if outgoing.is_empty() || transfer::sleep(disk, READERS_LOOK).await.is_err() {
            return;
        }
    }
}
