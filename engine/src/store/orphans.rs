//! Orphans, as a sweeper and an operator hold them: what lies below the root, what the manifest lists, and the verbs that give a
//! directory up, list what waits in the trash, and take it back.

use super::store::Store;
use crate::error::{OrphanError, VerbError};
use crate::host::{Host, HostForgotten, HostStandings};
use crate::id::{SegmentId, StoreId, Uid};
use crate::layout;
use crate::pending::{Answer, Pending, Unanswered, pair};
use crate::removal::evidence::{self, Evidence};
use crate::shard::command::Command;
use crate::shard::orphan::{GivenUp, HeldRecord, LetGo, OrphanAnswer, OrphanAsked, Sighted};
use crate::shard::verb::Verb;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::sync::mpsc;
use std::time::Duration;
use strandline_disk::host::Look;
use strandline_disk::{DiskError, EntryKind, Name, Stat};

/// How many directories are given up in one turn of the shard, and how many such parts are under way: those share commits and syncs.
const GIVEN_UP_TOGETHER: usize = 128;
const PARTS_GIVEN_UP: usize = 8;

/// How many orphans are let go together, and how many such parts wait for their removal.
const LET_GO_TOGETHER: usize = 1_024;
const PARTS_LET_GO: usize = 4;

/// How often somebody who waits for a removal looks whether he should go on.
const GOES_ON_LOOK: Duration = Duration::from_millis(20);

/// An entry below the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootEntry {
    /// Its name, which may be any bytes.
    pub name: OsString,
    /// What it is. Links are not followed.
    pub kind: EntryKind,
    /// Its ctime, wall ms; 0 is unknown.
    pub ctime_ms: u64,
}

/// What the manifest lists: a segment that is not here may be an orphan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedSegments {
    /// Which store it is.
    pub store: StoreId,
    /// The manifest was whole when it was read: with a damaged copy nothing should be swept.
    pub whole: bool,
    /// Its segments, and the uid of the file of each.
    pub segments: Vec<(SegmentId, Uid)>,
    /// Segments that were given up and still stand in their places.
    pub leaving: Vec<SegmentId>,
    /// Segments that are being made, and stand in their places already.
    pub making: Vec<SegmentId>,
}

/// An orphan that waits in the trash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingOrphan {
    /// The uid under which it waits, and by which it is taken back.
    pub uid: Uid,
    /// The name that it had.
    pub name: String,
    /// The lengths of its files, in bytes. `None` when it cannot be read.
    pub bytes: Option<u64>,
    /// Since when, wall ms: 0 is unknown.
    pub since_ms: u64,
    /// Until when at least, wall ms.
    pub until_ms: u64,
}

impl Store {
    /// What lies below the root. Read on this thread: no shard waits for it.
    ///
    /// # Errors
    /// What the file system answered.
    pub fn survey_root(&self) -> Result<Vec<RootEntry>, DiskError> {
        let entry = |(name, Stat { kind, ctime_ms, .. })| RootEntry { name, kind, ctime_ms };
        Ok(self.look().entries()?.into_iter().map(entry).collect())
    }

    /// What the files of a directory below the root say of themselves: at most 16 first blocks are read, on this thread. `None` when it is
    /// gone. Links are not followed, and no other mount is entered: either is [`Evidence::Unread`].
    #[must_use]
    pub fn evidence_in(&self, name: &OsStr) -> Option<Evidence> {
        let look = self.look();
        let first_block = |file: &Name| look.first_block(&[name, OsStr::new(file.as_str())]).ok();
        match look.list(&[name]) {
            Ok(entries) => Some(evidence::judge(entries, first_block).evidence),
            Err(error) if error.is_absent() => None,
            Err(_) => Some(Evidence::Unread),
        }
    }

    /// Every segment that the manifest lists. It is asked page by page, so that no shard is kept from its work for long; what is made
    /// meanwhile may be missing.
    ///
    /// # Errors
    /// [`OrphanError::Verb`].
    pub fn listed_segments(&self) -> Result<ListedSegments, OrphanError> {
        let mut all = ListedSegments { whole: true, ..ListedSegments::default() };
        let mut after = None;
        loop {
            let page = self.ask_orphan(|answer| OrphanAsked::Listed { after, answer })?;
            all.store = page.store;
            all.whole &= page.whole;
            all.segments.extend(page.segments);
            all.leaving.extend(page.leaving);
            all.making.extend(page.making);
            after = page.next;
            if after.is_none() {
                return Ok(all);
            }
        }
    }

    /// Gives a directory up that belongs to no segment, and is what was `seen`: the store looks once more, records it durably, and moves
    /// it to `trash/UID`, where it waits until `hold_until_ms` (wall) at least. One that is gone is no error.
    ///
    /// # Errors
    /// [`OrphanError`]: the directory stays.
    pub fn give_up_directory(&self, name: &str, seen: Sighted, hold_until_ms: u64) -> Result<GivenUp, OrphanError> {
        let directories = vec![(name.to_owned(), seen)];
        let each = self.ask_orphan(|answer| OrphanAsked::GiveUp { directories, hold_until_ms, answer })?;
        each.into_iter().next().unwrap_or(Err(VerbError::Closed.into()))
    }

    /// Gives several directories up, as [`Store::give_up_directory`] does, some of them at a time: they share commits of the manifest and syncs.
    /// Answers in their order.
    pub fn give_up_directories(
        &self,
        directories: impl IntoIterator<Item = (String, Sighted)>,
        hold_until_ms: u64,
    ) -> Vec<Result<GivenUp, OrphanError>> {
        let (mut directories, mut waiting, mut answers) = (directories.into_iter(), VecDeque::new(), Vec::new());
        let answer_of = |(count, begun): (usize, OrphanAnswer<Pending<_>>)| {
            // A part that failed as a whole is an answer to each of it.
            let each: OrphanAnswer<Vec<_>> = begun.and_then(Pending::wait);
            each.unwrap_or_else(|error| vec![Err(error); count])
        };
        loop {
            let directories: Vec<_> = directories.by_ref().take(GIVEN_UP_TOGETHER).collect();
            if directories.is_empty() {
                break;
            }
            if waiting.len() == PARTS_GIVEN_UP {
                answers.extend(waiting.pop_front().into_iter().flat_map(answer_of));
            }
            let count = directories.len();
            let begun = self.begin_orphan(|answer| OrphanAsked::GiveUp { directories, hold_until_ms, answer });
            waiting.push_back((count, begun));
        }
        answers.extend(waiting.into_iter().flat_map(answer_of));
        answers
    }

    /// Gives up a segment that the manifest lists and the host does not know. It must be the oldest of its log, and what was seen of it; an
    /// active one is fenced and sealed first. It waits in the trash as [`Store::give_up_directory`] says. One that is gone is no error.
    ///
    /// # Errors
    /// [`OrphanError`]: the segment stays.
    pub fn give_up_segment(&self, segment: &SegmentId, uid: Uid, hold_until_ms: u64) -> Result<GivenUp, OrphanError> {
        let Some(log) = self.find(&segment.log.topic, segment.log.range)? else { return Ok(GivenUp::Absent) };
        let ask = || {
            let (answer, pending) = pair();
            log.ask_verb(Verb::GiveUp { seq: segment.seq, uid, hold_until_ms, answer });
            pending.wait()
        };
        match ask() {
            Err(OrphanError::Verb(VerbError::NotSealed { .. })) => {
                log.fence(None).wait()?;
                log.seal().wait()?;
                ask()
            }
            answer => answer,
        }
    }

    /// What waits in the trash.
    ///
    /// # Errors
    /// [`OrphanError::Verb`].
    pub fn held_orphans(&self) -> Result<Vec<WaitingOrphan>, OrphanError> {
        let held = self.ask_orphan(|answer| OrphanAsked::Held { answer })?;
        let look = self.look();
        Ok(held.into_iter().map(|record| waiting(&look, record)).collect())
    }

    /// Takes an orphan back to where it was, durably, and gives its name. It is a directory that nobody knows again: a sweep that is not
    /// told better gives it up once more.
    ///
    /// # Errors
    /// [`OrphanError::NotHeld`], [`OrphanError::Taken`], [`OrphanError::Verb`].
    pub fn restore_orphan(&self, uid: Uid) -> Result<String, OrphanError> {
        self.ask_orphan(|answer| OrphanAsked::Restore { uid, answer })
    }

    /// Removes for good what waits in the trash and whose hold is over at `now_ms` (wall). Nothing else does: a clock that cannot be
    /// believed, or a full disk, ends no hold. The bytes go as those of any file do, at the rate that removal may have; this waits for it.
    ///
    /// # Errors
    /// [`OrphanError::Verb`].
    pub fn remove_held_orphans(&self, now_ms: u64) -> Result<LetGo, OrphanError> {
        let (let_go, ended) = self.remove_held_orphans_while(now_ms, |_| true, || true);
        ended.map(|()| let_go)
    }

    /// Removes those of them that `may_go`, as [`Store::remove_held_orphans`] does, some at a time, for as long as it is told to go on. What
    /// was begun with by then is removed all the same: nobody waits for it, and it is not in the answer. That says what became of the others, and
    /// which error ([`OrphanError::Verb`]) ended it early, if one did.
    pub fn remove_held_orphans_while(
        &self,
        now_ms: u64,
        may_go: impl Fn(Uid) -> bool,
        goes_on: impl Fn() -> bool,
    ) -> (LetGo, Result<(), OrphanError>) {
        let mut let_go = LetGo::default();
        let ended = self.let_go_while(now_ms, may_go, goes_on, &mut let_go);
        (let_go, ended)
    }

    fn let_go_while(
        &self,
        now_ms: u64,
        may_go: impl Fn(Uid) -> bool,
        goes_on: impl Fn() -> bool,
        let_go: &mut LetGo,
    ) -> Result<(), OrphanError> {
        let mut due = self.ask_orphan(|answer| OrphanAsked::Held { answer })?;
        due.retain(|record| record.until_ms <= now_ms && may_go(record.uid));
        // Neighbours were made one after the other: what is freed together lies together, and goes in few discards.
        due.sort_by(|one, other| one.segment.cmp(&other.segment));
        let (mut waiting, mut ended) = (VecDeque::new(), Ok(()));
        let mut parts = due.chunks(LET_GO_TOGETHER);
        while goes_on() {
            // Behind an error no more is begun; what was begun is waited for.
            while ended.is_ok()
                && waiting.len() < PARTS_LET_GO
                && let Some(part) = parts.next()
            {
                let uids = part.iter().map(|record| record.uid).collect();
                match self.begin_orphan(|answer| OrphanAsked::LetGo { uids, now_ms, answer }) {
                    Ok(begun) => {
                        let (tell, told) = mpsc::channel();
                        begun.on_ready(move |answer| drop(tell.send(answer)));
                        waiting.push_back(told);
                    }
                    Err(error) => ended = Err(error),
                }
            }
            let Some(first) = waiting.front() else { break };
            let answer = match first.recv_timeout(GOES_ON_LOOK) {
                Err(mpsc::RecvTimeoutError::Timeout) => continue,
                Err(mpsc::RecvTimeoutError::Disconnected) => Err(VerbError::Closed.into()),
                Ok(answer) => answer,
            };
            waiting.pop_front();
            match answer {
                Ok(LetGo { gone, kept }) => {
                    let_go.gone.extend(gone);
                    let_go.kept.extend(kept);
                }
                Err(error) => ended = ended.and(Err(error)),
            }
        }
        ended
    }

    /// Asks the host how these segments stand with it. `None` without a host.
    #[must_use]
    pub fn ask_host(&self, segments: &[SegmentId]) -> Option<Pending<HostStandings>> {
        self.ask_of_host(|host, answer| host.lookup(segments, answer))
    }

    /// Has the host forget these segments, which have expired. `None` without a host.
    #[must_use]
    pub fn have_host_forget(&self, segments: &[SegmentId]) -> Option<Pending<HostForgotten>> {
        self.ask_of_host(|host, answer| host.forget(segments, answer))
    }

    fn ask_of_host<T: Unanswered>(&self, ask: impl FnOnce(&dyn Host, Answer<T>)) -> Option<Pending<T>> {
        let host = self.host()?;
        let (answer, pending) = pair();
        ask(&*host.0, answer);
        Some(pending)
    }

    fn ask_orphan<T>(&self, asked: impl FnOnce(Answer<OrphanAnswer<T>>) -> OrphanAsked) -> OrphanAnswer<T> {
        self.begin_orphan(asked)?.wait()
    }

    fn begin_orphan<T>(
        &self,
        asked: impl FnOnce(Answer<OrphanAnswer<T>>) -> OrphanAsked,
    ) -> Result<Pending<OrphanAnswer<T>>, OrphanError> {
        let queue = self.manifest_queue();
        let admitted = queue.room()?;
        let (answer, pending) = pair();
        queue.push(Command::Orphan { asked: asked(answer), admitted });
        Ok(pending)
    }
}

fn waiting(look: &Look, HeldRecord { uid, segment, until_ms }: HeldRecord) -> WaitingOrphan {
    let place = layout::uid_directory_name(uid);
    let path = [OsStr::new(layout::TRASH_DIRECTORY), OsStr::new(place.as_str())];
    let bytes = look.list(&path).and_then(|files| {
        files
            .iter()
            .map(|file| look.stat(&[path[0], path[1], &file.name]).map(|stat| stat.bytes))
            .sum::<Result<u64, _>>()
    });
    let since_ms = look.stat(&path).map_or(0, |stat| stat.ctime_ms);
    let name = layout::directory_name(&segment).as_str().to_owned();
    WaitingOrphan { uid, name, bytes: bytes.ok(), since_ms, until_ms }
}
