//! Edits by hand: what the verbs of a store would tell its manifest, handed in while no shard runs.

use super::files::Disk;
use super::violation::{Checked, Violation};
use strandline::config::CheckedConfig;
use strandline::format::manifest::Edit;
use strandline::manifest::state::{LogRecord, Stage, State};
use strandline::manifest::{ManifestError, identity, load};
use strandline::{LogId, OpenError, layout};
use strandline_disk::sim::{Driven, SimWorld, drive_steps};
use strandline_disk::{Disk as _, Name, transfer};

/// How many turns handing edits in may take.
const TURNS_MAX: usize = 10_000;

/// Hands groups of edits in, which follow from what the manifest says, and ends the process: after `turns` turns, or when all of them are
/// durable. True when they are.
///
/// # Errors
/// When the manifest cannot be read or refuses an edit.
pub fn edit(
    world: &SimWorld,
    config: &CheckedConfig,
    turns: Option<usize>,
    groups: impl FnOnce(&State) -> Vec<Vec<Edit>>,
) -> Checked<bool> {
    world.land_strays();
    let disk = world.open();
    let work = Box::pin(async {
        let store = identity::identify(&disk, config).await.map_err(|error| error.to_string())?;
        let name = Name::new(layout::MANIFEST_DIRECTORY).expect("a plain name");
        let opened = transfer::open_directory(&disk, &disk.root(), &name).await.map_err(OpenError::from);
        let loaded = load::load(&disk, &opened.map_err(|error| error.to_string())?, store).await;
        let mut manifest = loaded.map_err(|error| error.to_string())?.manifest;
        let groups = groups(manifest.state());
        let answers: Vec<_> = groups.into_iter().map(|group| manifest.edits().submit(group)).collect();
        while manifest.is_busy() {
            if let Some(commit) = manifest.stage() {
                let commit = commit.await;
                manifest.settle(commit);
            }
        }
        for answer in answers {
            answer.await.map_err(|error: ManifestError| error.to_string())?;
        }
        Ok::<(), String>(())
    });
    match drive_steps(&disk, work, turns.unwrap_or(TURNS_MAX)) {
        Driven::Ready(done) => {
            done.map_err(|seen| Violation { promise: "the manifest takes what follows from it", seen }).map(|()| true)
        }
        Driven::Pending(_) => Ok(false),
    }
}

/// The edits with which logs go to rest whose live segment is marked: as the manifest and the files say.
#[must_use]
pub fn clean(disk: &Disk) -> Vec<Edit> {
    disk.state().logs.iter().filter_map(|(id, record)| clean_of(disk, id, record)).collect()
}

fn clean_of(disk: &Disk, id: &LogId, record: &LogRecord) -> Option<Edit> {
    let live = |stage: Stage| matches!(stage, Stage::Live(_));
    let last = record.segments.iter().rfind(|(_, record)| record.opening().is_some())?;
    let segment = disk.segments().iter().find(|segment| segment.id.log == *id && segment.id.seq == *last.0)?;
    let batches = super::checker::walk(disk.bytes(&segment.path)?, segment.record.uid);
    let (at, mark) = batches.last().filter(|(_, header)| header.is_mark() && live(segment.record.stage))?;
    Some(Edit::Clean {
        segment: segment.id.clone(),
        end: mark.end,
        end_position: at.plus(mark.total_length()),
        last_store_time_ms: mark.store_time_ms,
    })
}
