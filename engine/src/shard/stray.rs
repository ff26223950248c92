//! Strays: a directory that belongs to no segment that the store knows is removed when somebody says so. Only what the store itself
//! would have put into it goes with it; anything else stops it.

use super::shard::{Event, Shard};
use super::verb::Verdict;
use crate::error::VerbError;
use crate::layout;
use crate::pending::Answer;
use strandline_disk::{Disk, EntryKind, Name, transfer};

impl<D: Disk> Shard<D> {
    /// Removes a directory below the root. Asked of the shard that keeps the manifest.
    pub(super) fn delete_directory(&mut self, name: String, answer: Answer<Verdict<()>>) {
        let foreign = |reason: &str| VerbError::Foreign { name: name.clone(), reason: reason.to_owned() };
        let readings = layout::candidate_ids(&name);
        // Claimed before it is looked for: what is being made meanwhile is known when its claim ends.
        let claim = self.siblings.claim(readings.clone());
        let known = claim.as_ref().err().or_else(|| readings.iter().find(|id| self.stands_in_its_place(id))).cloned();
        let checked = match (known, claim, Name::new(&name)) {
            (Some(segment), ..) | (None, Err(segment), _) => Err(VerbError::Known { name: name.clone(), segment }),
            (None, Ok(_), _) if readings.is_empty() => Err(foreign("its name is not that of a segment")),
            (None, Ok(_), Err(_)) => Err(foreign("its name is not one of a directory here")),
            (None, Ok(claim), Ok(plain)) => Ok((claim, plain)),
        };
        match checked {
            Err(error) => answer.give(Err(error)),
            Ok((claim, plain)) => {
                let disk = self.disk.clone();
                self.spawn(async move {
                    let result = remove(&disk, &plain, &name).await;
                    drop(claim);
                    Event::Done(Box::new(move |shard| {
                        shard.heed_failure(&result);
                        answer.give(result);
                    }))
                });
            }
        }
    }
}

async fn remove<D: Disk>(disk: &D, plain: &Name, name: &str) -> Verdict<()> {
    let root = disk.root();
    let directory = match transfer::open_directory(disk, &root, plain).await {
        Err(error) if error.is_absent() => return Ok(()), // It is gone, as was wanted.
        opened => opened?,
    };
    let entries = disk.list(&directory)?;
    let ours = |entry: &&strandline_disk::Entry| {
        let text = entry.name.to_str().unwrap_or_default();
        let is_ours = layout::data_file_generation(text).is_some() || layout::torn_file_life(text).is_some();
        entry.kind == EntryKind::File && is_ours
    };
    if let Some(other) = entries.iter().find(|entry| !ours(entry)) {
        let reason = format!("it holds {:?}, which no segment has", other.name);
        return Err(VerbError::Foreign { name: name.to_owned(), reason });
    }
    for entry in &entries {
        let file = entry.name.to_str().and_then(|name| Name::new(name).ok());
        if let Some(file) = file {
            transfer::unlink(disk, &directory, &file).await?;
        }
    }
    transfer::remove_directory(disk, &root, plain).await?;
    Ok(transfer::sync_directory(disk, &root).await?)
}
