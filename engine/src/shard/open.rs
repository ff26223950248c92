//! Open: from a directory to a shard that takes appends. Identity, manifest, logs, in this order.

use super::command::{Admitted, LogNumber, Queue};
use super::recover::{Recovered, Recovery};
use super::shard::Shard;
use crate::config::{CheckedConfig, sabotaged};
use crate::error::OpenError;
use crate::format::manifest::Edit;
use crate::id::{Epoch, Life, LogId, Seq};
use crate::layout;
use crate::log::Log;
use crate::manifest::{self, Manifest, ManifestError};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use strandline_disk::{Disk, EntryKind, Name, transfer};

/// What opening a store found.
#[derive(Clone, Debug, Default)]
pub struct OpenReport {
    /// Logs in the store.
    pub logs: usize,
    /// Bytes that were scanned because their segments had no footer.
    pub scanned_bytes: u64,
    /// Bytes past a durable end that were cleared: they had never been acknowledged.
    pub torn_bytes: u64,
    /// How long recovery took.
    pub took: Duration,
    /// What is damaged, a sentence each. It is kept as it is.
    pub damaged: Vec<String>,
    /// Directories that belong to no segment that the manifest knows. They are left alone.
    pub strays: Vec<String>,
    /// Everything else that an operator should know, a sentence each.
    pub warnings: Vec<String>,
}

/// Opens the store below the disk's root.
///
/// # Errors
/// [`OpenError`]. A damaged segment is no error: it is reported, and its log goes on without it.
pub async fn open<D: Disk>(
    disk: D,
    config: CheckedConfig,
    queue: Arc<Queue>,
) -> Result<(Shard<D>, OpenReport), OpenError> {
    assert!(!sabotaged!(config, PanicOnOpen), "a deliberate panic");
    let started_ns = disk.now().boot_ns;
    let store = manifest::identity::identify(&disk, &config).await?;
    let name = Name::new(layout::MANIFEST_DIRECTORY).expect("a plain name");
    let directory = transfer::open_directory(&disk, &disk.root(), &name).await?;
    let loaded = manifest::load::load(&disk, &directory, store).await?;
    let mut manifest = loaded.manifest;
    let life = Life(manifest.state().life.0 + 1);
    let mut report = OpenReport { warnings: loaded.damage, ..OpenReport::default() };
    report.strays = strays(&disk, &manifest)?;

    // Durable before anything is written: two lives never write batches with the same number.
    edit(&mut manifest, [vec![Edit::Opened { life }]]).await?;
    let mut logs: Vec<Log<Admitted>> = Vec::new();
    let mut edits = Vec::new();
    let mut unsealed: Vec<(LogNumber, Seq)> = Vec::new();
    for (id, record) in manifest.state().logs.clone() {
        let mut recovery = Recovery { disk: &disk, config: &config, life, store, epoch: Epoch(0), report: &mut report };
        let Recovered { log, edits: of_log, unsealed: of_segments } = recovery.recover(&id, &record).await;
        edits.push(of_log);
        unsealed.extend(of_segments.into_iter().map(|segment| (LogNumber(logs.len()), segment)));
        logs.push(log);
    }
    // Durable before the first append: what was adopted or fenced stays so. Each log for itself, since only the edits of one log
    // belong together, and those of all of them may not fit one frame.
    edit(&mut manifest, edits).await?;
    report.logs = logs.len();
    report.took = Duration::from_nanos(disk.now().boot_ns.saturating_sub(started_ns));
    let mut shard = Shard::new(disk, config, queue, store, life, manifest, logs);
    for (log, segment) in unsealed {
        shard.seal(log, segment);
    }
    Ok((shard, report))
}

/// Makes groups of edits durable while no shard runs yet.
async fn edit<D: Disk>(
    manifest: &mut Manifest<D>,
    groups: impl IntoIterator<Item = Vec<Edit>>,
) -> Result<(), OpenError> {
    let edits = manifest.edits();
    let groups = groups.into_iter().filter(|group| !group.is_empty());
    let durable: Vec<_> = groups.map(|group| edits.submit(group)).collect();
    // A group that does not fit is refused without a commit; those behind it still have their turn.
    while manifest.is_busy() {
        if let Some(commit) = manifest.stage() {
            let commit = commit.await;
            manifest.settle(commit);
        }
    }
    for durable in durable {
        durable.await.map_err(|error| match error {
            ManifestError::Disk(source) | ManifestError::Latched(source) => OpenError::Disk(source),
            ManifestError::Full { needed, room } => OpenError::ManifestFull { needed, room },
            ManifestError::Gone => OpenError::ShardGone(error.to_string()),
        })?;
    }
    Ok(())
}

/// Directories that read as segments and that the manifest does not know.
fn strays<D: Disk>(disk: &D, manifest: &Manifest<D>) -> Result<Vec<String>, OpenError> {
    let logs = &manifest.state().logs;
    let known: BTreeSet<String> = logs.iter().flat_map(|(id, log)| segment_names(id, log.segments.keys())).collect();
    let entries = disk.list(&disk.root())?;
    let directories = entries.into_iter().filter(|entry| entry.kind == EntryKind::Directory);
    let names = directories.map(|entry| entry.name.to_string_lossy().into_owned());
    Ok(names.filter(|name| !layout::RESERVED.contains(&name.as_str()) && !known.contains(name)).collect())
}

fn segment_names<'a>(id: &'a LogId, seqs: impl Iterator<Item = &'a Seq> + 'a) -> impl Iterator<Item = String> + 'a {
    seqs.map(|seq| {
        let segment = crate::id::SegmentId { log: id.clone(), seq: *seq };
        layout::directory_name(&segment).as_str().to_owned()
    })
}
