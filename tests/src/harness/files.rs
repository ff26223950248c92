//! What stands on the simulated medium, looked at past the engine: the manifest's state and the files.

use super::violation::{Checked, Violation};
use std::collections::BTreeMap;
use strandline::config::CheckedConfig;
use strandline::id::SegmentId;
use strandline::layout;
use strandline::manifest::state::{SegmentRecord, State};
use strandline::manifest::{identity, load};
use strandline_disk::sim::{SimWorld, drive};
use strandline_disk::{Disk as _, Name, transfer};

/// A segment that the manifest names.
#[derive(Clone, Debug)]
pub struct SegmentFile {
    /// Which segment.
    pub id: SegmentId,
    /// What the manifest says of it.
    pub record: SegmentRecord,
    /// The path of its file.
    pub path: String,
    /// It is the newest of its log that was ever written, or one prepared behind that.
    pub is_last: bool,
}

/// A picture of a medium.
#[derive(Debug)]
pub struct Disk {
    state: State,
    segments: Vec<SegmentFile>,
    files: BTreeMap<String, Vec<u8>>,
}

impl Disk {
    /// Looks at a copy of the world; the world itself stays as it is.
    ///
    /// # Errors
    /// When the manifest cannot be read.
    ///
    /// # Panics
    /// When a file that was listed is gone.
    pub fn look(world: &SimWorld, config: &CheckedConfig) -> Checked<Disk> {
        let copy = world.snapshot();
        copy.clear_faults();
        let state = state_of(&copy, config)?;
        let mut segments = Vec::new();
        for (log, record) in &state.logs {
            let opened = record.segments.iter().filter(|(_, record)| record.opening().is_some());
            let last = opened.map(|(seq, _)| *seq).max();
            for (seq, record) in &record.segments {
                let id = SegmentId { log: log.clone(), seq: *seq };
                let path = format!("{}/{}", layout::directory_name(&id), layout::data_file_name(record.generation));
                segments.push(SegmentFile { id, record: *record, path, is_last: Some(*seq) >= last });
            }
        }
        let read = |path: &str| world.read_file(path).expect("a file that was listed");
        let files = world.files().into_iter().map(|(path, _)| (path.clone(), read(&path))).collect();
        Ok(Disk { state, segments, files })
    }

    /// The paths of all files.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// The bytes of a file.
    #[must_use]
    pub fn bytes(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }

    /// The segments that the manifest names, in order.
    #[must_use]
    pub fn segments(&self) -> &[SegmentFile] {
        &self.segments
    }

    /// What the manifest says.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Whether the manifest, or the format itself, says what this file is.
    #[must_use]
    pub fn explains(&self, path: &str) -> bool {
        let own = [layout::FORMAT_FILE, layout::ID_FILE, layout::RESERVE_FILE, "manifest/a", "manifest/b"];
        if own.contains(&path) || self.segments.iter().any(|segment| segment.path == path) {
            return true;
        }
        let Some((directory, name)) = path.split_once('/') else { return false };
        if directory == layout::AUDIT_DIRECTORY {
            return true;
        }
        // An orphan waits under its uid.
        let waits = name.split_once('/').and_then(|(uid, _)| layout::uid_of_directory(uid));
        if directory == layout::TRASH_DIRECTORY && waits.is_some_and(|uid| self.state.released.contains_key(&uid)) {
            return true;
        }
        // A released file is on its way out, and so is what stands beside it.
        let released = self.state.released.values().map(|released| (&released.segment, released.generation));
        let is_released = |(id, generation): (&SegmentId, _)| {
            layout::directory_name(id).as_str() == directory && layout::data_file_name(generation).as_str() == name
        };
        if released.clone().any(is_released) {
            return true;
        }
        let known = self.segments.iter().map(|segment| &segment.id).chain(released.map(|(id, _)| id));
        let known = known.map(layout::directory_name).any(|known| known.as_str() == directory);
        known && layout::torn_file_life(name).is_some()
    }
}

fn state_of(world: &SimWorld, config: &CheckedConfig) -> Checked<State> {
    let disk = world.open();
    let work = Box::pin(async {
        let store = identity::identify(&disk, config).await?;
        let name = Name::new(layout::MANIFEST_DIRECTORY).expect("a plain name");
        let directory = transfer::open_directory(&disk, &disk.root(), &name).await?;
        load::load(&disk, &directory, store).await.map(|loaded| loaded.manifest.state().clone())
    });
    drive(&disk, work).map_err(|error| Violation { promise: "the manifest can be read", seen: error.to_string() })
}
