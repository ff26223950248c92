//! Open: from a directory to shards that take appends. First the manifest, by the shard that keeps it; then each shard its share of
//! the logs.

use super::clock::StoreClock;
use super::command::{LogNumber, Queue};
use super::recover::{Recovered, Recovery};
use super::report::OpenReport;
use super::shard::Shard;
use super::siblings::Siblings;
use crate::config::{CheckedConfig, sabotaged};
use crate::error::OpenError;
use crate::format::manifest::Edit;
use crate::id::{Life, LogId, SegmentId, StoreId};
use crate::layout;
use crate::manifest::state::LogRecord;
use crate::manifest::{self, Edits, Manifest, ManifestError};
use crate::removal::evidence::{self, Evidence};
use crate::removal::exchange::Exchange;
use crate::removal::pressure::{MarksWanted, Stage};
use crate::removal::release::{self, Given};
use crate::removal::spares::Spares;
use crate::removal::{recycle, trash};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use strandline_disk::host::open_files;
use strandline_disk::{Access, Disk, EntryKind, Name, transfer};

/// How many logs of a shard are recovered at once: while one is looked at the disk reads for the others.
const RECOVERED_AT_ONCE: usize = 16;

/// How many descriptors one takes meanwhile: directory and file of the segment that is looked at, its successor's, one that is set aside, and
/// one that waits to be sealed.
const DESCRIPTORS_OF_A_RECOVERY: usize = 6;

/// A store whose manifest was read, and which knows that it was opened once more.
#[derive(Debug)]
pub struct Opened<D> {
    /// The manifest, for the shard that keeps it.
    pub manifest: Manifest<D>,
    /// Which store it is.
    pub store: StoreId,
    /// How often it has been opened, this time included.
    pub life: Life,
    /// Its logs, in the order of their ids.
    pub logs: Vec<(LogId, LogRecord)>,
    /// Files that were given up and whose bytes may go now.
    pub released: Vec<Given>,
    /// What all shards share.
    pub siblings: Arc<Siblings>,
    /// What was found so far.
    pub report: OpenReport,
}

/// What a shard is given to open.
#[derive(Debug)]
pub struct Share<D> {
    /// Which store it is.
    pub store: StoreId,
    /// How often it has been opened, this time included.
    pub life: Life,
    /// Where edits are handed in.
    pub edits: Edits,
    /// The manifest, for the one shard that keeps it. All others rely on its turns.
    pub manifest: Option<Manifest<D>>,
    /// What all shards share.
    pub siblings: Arc<Siblings>,
    /// The logs of this shard.
    pub logs: Vec<(LogId, LogRecord)>,
}

/// Opens the store below the disk's root with one shard. What was given up waits for a [`crate::removal::remover::Remover`].
///
/// # Errors
/// [`OpenError`]. A damaged segment is no error: it is reported, and its log goes on without it.
pub async fn open<D: Disk>(
    disk: D,
    config: CheckedConfig,
    queue: Arc<Queue>,
) -> Result<(Shard<D>, OpenReport), OpenError> {
    let Opened { manifest, store, life, logs, released, siblings, mut report } = open_manifest(&disk, &config).await?;
    let share = Share { store, life, edits: manifest.edits(), manifest: Some(manifest), siblings, logs };
    let (shard, part) = open_logs(disk, config, queue, share).await?;
    shard.siblings.give(released);
    report.took += part.took;
    report.absorb(part);
    Ok((shard, report))
}

/// Reads the manifest, and makes it durable that the store was opened once more.
///
/// # Errors
/// [`OpenError`].
pub async fn open_manifest<D: Disk>(disk: &D, config: &CheckedConfig) -> Result<Opened<D>, OpenError> {
    assert!(!sabotaged!(config, PanicOnOpen), "a deliberate panic");
    // What is done first may take long: the clocks are compared from here on.
    let opened_at = disk.now();
    let started_ns = opened_at.boot_ns;
    let store = manifest::identity::identify(disk, config).await?;
    let name = Name::new(layout::MANIFEST_DIRECTORY).expect("a plain name");
    let directory = transfer::open_directory(disk, &disk.root(), &name).await?;
    let loaded = manifest::load::load(disk, &directory, store).await?;
    let mut manifest = loaded.manifest;
    let clock = StoreClock::open(opened_at, manifest.state());
    let life = Life(manifest.state().life.0 + 1);
    let (mut strays, known) = strays(disk, &manifest)?;
    if known == 0 && !config.adopt_unknown {
        refuse_unknown_data(disk, config, store, &strays).await?;
    }
    let pooled = recycle::find(disk, store).await?;
    strays.extend(pooled.foreign);
    let degraded = !loaded.damage.is_empty();
    let trash = trash::find(disk, manifest.state(), degraded).await?;
    strays.extend(trash.foreign);
    let spares = Spares::new(config.spare_bytes_max, pooled.spares).with_half_removed(pooled.half_removed);
    let siblings = Siblings::new(spares).with_trash(trash.held, degraded).with_clock(clock);
    let siblings = Arc::new(siblings.with_scrub(manifest.state().scrub.clone()));
    see_how_much_room_there_is(disk, config, &siblings);

    // Durable before anything is written: two lives never write batches with the same number.
    let gone = trash.gone.iter().map(|uid| Edit::Gone { uid: *uid });
    let durable = manifest.edits().submit([Edit::Opened { life }].into_iter().chain(gone).collect());
    beside(Some(&mut manifest), durable).await.map_err(refused)?;
    let mut released = release::due(manifest.state(), disk.now().wall_ms);
    // What waits in the trash goes when a sweep says so: whether the clock can be believed is not known here.
    released.retain(|given| !trash::is_held(&given.record));
    let logs = manifest.state().logs.iter().map(|(id, record)| (id.clone(), record.clone())).collect();
    let took = took(disk, started_ns);
    let warnings = loaded.damage.into_iter().chain(trash.warnings).collect();
    let report = OpenReport { warnings, strays, took, ..OpenReport::default() };
    Ok(Opened { manifest, store, life, logs, released, siblings, report })
}

/// Recovers the logs of one shard.
///
/// # Errors
/// [`OpenError`], when the manifest did not take what was found.
pub async fn open_logs<D: Disk>(
    disk: D,
    config: CheckedConfig,
    queue: Arc<Queue>,
    share: Share<D>,
) -> Result<(Shard<D>, OpenReport), OpenError> {
    let started_ns = disk.now().boot_ns;
    let Share { store, life, edits, mut manifest, siblings, logs: records } = share;
    if let Some(manifest) = &manifest {
        // Before any shard makes a file: nobody takes a name that somebody is about to remove.
        let released = manifest.state().released.iter().filter(|(uid, _)| !siblings.held.has(**uid));
        siblings.removal.going.note(released.map(|(uid, record)| (*uid, record)));
    }
    let recovery = Recovery { disk: &disk, config: &config, life, store };
    // What other shards hand in meanwhile is written by the one that keeps the manifest.
    let recovered = beside(manifest.as_mut(), recover_all(&recovery, &edits, &records)).await?;
    let (mut logs, mut unsealed, mut report) = (Vec::new(), Vec::new(), OpenReport::default());
    for Recovered { log, unsealed: segments, report: part, .. } in recovered {
        unsealed.extend(segments.into_iter().map(|segment| (LogNumber(logs.len()), segment)));
        logs.push(log);
        report.absorb(part);
    }
    report.took = took(&disk, started_ns);
    let mut shard = Shard::new(disk, config, queue, (store, life), (edits, manifest), siblings, logs);
    for (log, segment) in unsealed {
        shard.seal(log, segment);
    }
    Ok((shard, report))
}

/// Before anything is taken in: a store on a full disk refuses appends from the first one on.
fn see_how_much_room_there_is<D: Disk>(disk: &D, config: &CheckedConfig, siblings: &Siblings) {
    let wanted = MarksWanted::of(config);
    if wanted.is_off() {
        return;
    }
    let Exchange { gauge, spares, .. } = &*siblings.removal;
    match disk.space() {
        Ok(space) => {
            let found = gauge.read().after(space, wanted.marks(space.total), false);
            spares.open_or_close(found.stage == Stage::Calm);
            gauge.show(found);
        }
        Err(error) => tracing::warn!(%error, "how much room there is is not known yet"),
    }
}

fn took<D: Disk>(disk: &D, started_ns: u64) -> Duration {
    Duration::from_nanos(disk.now().boot_ns.saturating_sub(started_ns))
}

/// Recovers logs side by side, and gives them in their order when the manifest durably knows what was found.
async fn recover_all<D: Disk>(
    recovery: &Recovery<'_, D>,
    edits: &Edits,
    logs: &[(LogId, LogRecord)],
) -> Result<Vec<Recovered>, OpenError> {
    let most = recovery.config.descriptors_of_a_shard() / 2 / DESCRIPTORS_OF_A_RECOVERY;
    let at_once = RECOVERED_AT_ONCE.min(most).max(1);
    let recoveries = logs.iter().enumerate().map(|(place, (id, record))| async move {
        let mut recovered = recovery.recover(id, record).await.map_err(|source| OpenError::TooManyOpen {
            held: recovery.disk.handles().open(),
            budget: recovery.config.descriptors_of_a_shard(),
            limit: open_files(),
            source,
        })?;
        // Handed in when the log is done: only the edits of one log belong together, and those of all may not fit one frame.
        let group = std::mem::take(&mut recovered.edits);
        let durable = (!group.is_empty()).then(|| edits.submit(group));
        Ok::<_, OpenError>((place, recovered, durable))
    });
    let mut recovered: Vec<_> = stream::iter(recoveries).buffer_unordered(at_once).try_collect().await?;
    recovered.sort_unstable_by_key(|(place, ..)| *place);
    let mut done = Vec::with_capacity(recovered.len());
    for (_, log, durable) in recovered {
        // Durable before the first append: what was adopted or fenced stays so.
        if let Some(durable) = durable {
            durable.await.map_err(refused)?;
        }
        done.push(log);
    }
    Ok(done)
}

/// Does `work`, and beside it what is handed in to the manifest, where it is kept here.
async fn beside<D: Disk, F: Future>(mut manifest: Option<&mut Manifest<D>>, work: F) -> F::Output {
    let (mut work, mut output, mut commit) = (pin!(work), None, None);
    std::future::poll_fn(|context| {
        loop {
            if output.is_none()
                && let Poll::Ready(done) = work.as_mut().poll(context)
            {
                output = Some(done);
            }
            let Some(manifest) = manifest.as_deref_mut() else { break };
            if output.is_none() && commit.is_none() && manifest.is_busy() {
                match manifest.stage() {
                    Some(started) => commit = Some(Box::pin(started)),
                    None => continue, // All that was there was refused: whoever waited for it goes on.
                }
            }
            // A commit that was started is seen to its end: those who wait for it may be other shards.
            let Some(started) = commit.as_mut() else { break };
            let Poll::Ready(ended) = started.as_mut().poll(context) else { return Poll::Pending };
            commit = None;
            manifest.settle(ended);
        }
        output.take().map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

fn refused(error: ManifestError) -> OpenError {
    match error {
        ManifestError::Disk(source) | ManifestError::Latched(source) => OpenError::Disk(source),
        ManifestError::Full { needed, room } => OpenError::ManifestFull { needed, room },
        ManifestError::Gone => OpenError::ShardGone(error.to_string()),
    }
}

/// Directories that the manifest does not know, and how many there are that it knows.
fn strays<D: Disk>(disk: &D, manifest: &Manifest<D>) -> Result<(Vec<String>, usize), OpenError> {
    let state = manifest.state();
    let listed = state
        .logs
        .iter()
        .flat_map(|(log, record)| record.segments.keys().map(|seq| SegmentId { log: log.clone(), seq: *seq }));
    let released = state.released.values().map(|released| released.segment.clone());
    let names = listed.chain(released).map(|segment| layout::directory_name(&segment).as_str().to_owned());
    let known: BTreeSet<String> = names.collect();
    let entries = disk.list(&disk.root())?;
    let directories = entries.into_iter().filter(|entry| entry.kind == EntryKind::Directory);
    let names = directories.map(|entry| entry.name.to_string_lossy().into_owned());
    let names = names.filter(|name| !layout::RESERVED.contains(&name.as_str()));
    let (found, strays): (Vec<String>, Vec<String>) = names.partition(|name| known.contains(name));
    Ok((strays, found.len()))
}

/// Refuses a root in which a directory holds data: the manifest knows none of them, so it is not theirs.
async fn refuse_unknown_data<D: Disk>(
    disk: &D,
    config: &CheckedConfig,
    store: StoreId,
    strays: &[String],
) -> Result<(), OpenError> {
    for directory in strays.iter().filter(|name| !layout::candidate_ids(name.as_str()).is_empty()) {
        let name = Name::new(directory).expect("what reads as a segment is a plain name");
        let opened = match transfer::open_directory(disk, &disk.root(), &name).await {
            Ok(opened) => opened,
            // Each of them may hold data.
            Err(error) if error.is_out_of_descriptors() => return Err(error.into()),
            Err(_) => continue, // One that cannot be looked into says nothing: it is a stray.
        };
        if let Evidence::Live { header, .. } = evidence::read(disk, &opened, Access::Auto).await?.evidence {
            let (root, directory) = (config.root.clone(), directory.clone());
            return Err(OpenError::UnknownData { root, directory, of: header.store, store });
        }
    }
    Ok(())
}
