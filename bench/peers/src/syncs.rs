//! Counting syncs: each engine once more, under strace, with one producer, so that nothing is believed that was not seen.
//!
//! Ring operations are not seen by strace. For ours the store's own count of commits stands for them, and the same store over plain system
//! calls is looked at as well. An engine that was told not to sync runs beside them: were it found durable, the check would be blind.

use crate::child::{command, unheard};
use crate::engine::{Kind, Setting};
use crate::error::{PeersError, io};
use crate::interrupt::Interrupt;
use crate::part::{Part, Said, Work};
use crate::strace::{self, Syncs};
use serde::Serialize;
use std::path::Path;
use std::process::Stdio;

/// Bytes of a record.
const RECORD_BYTES: usize = 1 << 10;

/// What was found of one engine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// Which.
    pub engine: &'static str,
    /// What strace saw.
    pub syncs: Syncs,
    /// What the engine itself counted, where its operations are not seen.
    pub commits: Option<u64>,
    /// Whether every append was durable when it was acknowledged.
    pub is_durable: bool,
}

/// Looks at all engines that are measured, at ours over plain system calls, and at one that does not sync.
///
/// # Errors
/// strace or an engine failed, or the engine that does not sync was found to be durable.
pub fn check(place: &Path, kinds: &[Kind], appends: u64, interrupt: &Interrupt) -> Result<Vec<Found>, PeersError> {
    let control = look(place, Kind::Naive, appends, false)?;
    if control.is_durable {
        return Err(PeersError::Blind(Kind::Naive.name()));
    }
    let mut kinds = kinds.to_vec();
    if kinds.contains(&Kind::Strandline) && !kinds.contains(&Kind::StrandlinePosix) {
        kinds.push(Kind::StrandlinePosix);
    }
    let each = kinds.into_iter().map(|kind| {
        interrupt.check()?;
        look(place, kind, appends, true)
    });
    each.collect()
}

/// Has one engine append under strace.
///
/// # Errors
/// strace or the engine failed.
pub fn look(place: &Path, kind: Kind, appends: u64, synced: bool) -> Result<Found, PeersError> {
    let made = tempfile::Builder::new().prefix(&format!("{}-syncs-", kind.name())).tempdir_in(place);
    let made = made.map_err(io("making a directory"))?;
    let (directory, written) = (made.path().join("engine"), made.path().join("strace"));
    std::fs::create_dir(&directory).map_err(io("making a directory"))?;
    let setting = Setting { producers: 1, small: true, synced };
    let work = Work::Marked(appends);
    let part = Part { kind, directory: directory.clone(), setting, record_bytes: RECORD_BYTES, work };
    let wrapper = ["strace", "-f", "-y", "-s", "0", "-e", strace::TRACED, "-o", &written.to_string_lossy()];
    let wrapper = wrapper.map(str::to_owned);
    let output = command(&part, &wrapper)?.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(io("running strace, which has to be installed, or say --unchecked"))?;
    let last = String::from_utf8_lossy(&output.stdout).lines().last().map(serde_json::from_str::<Said>).transpose();
    let (true, Ok(Some(Said::Appended(commits)))) = (output.status.success(), last) else {
        return Err(unheard(kind, format!("under strace it ended with {}", output.status)));
    };
    let trace = std::fs::read(&written).map_err(io("reading what strace wrote"))?;
    let syncs = strace::count(&String::from_utf8_lossy(&trace), &directory.to_string_lossy(), RECORD_BYTES as u64);
    let is_durable = match (kind.has_ring(), synced) {
        (true, true) => syncs.appends > 0 && commits.is_some_and(|commits| commits >= syncs.appends),
        _ => syncs.is_durable(),
    };
    made.close().map_err(io("removing a directory"))?;
    Ok(Found { engine: kind.name(), syncs, commits: commits.filter(|_| kind.has_ring()), is_durable })
}
