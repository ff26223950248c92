//! Together: one sync of a directory for all who wait for one. Each is answered by a sync that started after he asked.

use crate::disk::Disk;
use crate::error::DiskError;
use crate::handle::Directory;
use crate::transfer;
use futures_channel::oneshot;
use std::cell::RefCell;
use std::rc::Rc;

/// Syncs of one directory, shared by the tasks of one thread. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Together(Rc<RefCell<Shared>>);

#[derive(Debug, Default)]
struct Shared {
    /// Somebody syncs for all: since when, those who come wait here for the next one.
    is_syncing: bool,
    waiting: Vec<oneshot::Sender<Result<(), DiskError>>>,
}

impl Together {
    /// Makes the names in `directory`, which is always the same one, durable as they were when this was called.
    ///
    /// # Errors
    /// What the disk answered, to all who waited for that sync. A failed sync is never tried again in their name.
    pub async fn sync<D: Disk>(&self, disk: &D, directory: &Directory) -> Result<(), DiskError> {
        let (tell, told) = oneshot::channel();
        let begins = {
            let mut shared = self.0.borrow_mut();
            shared.waiting.push(tell);
            !std::mem::replace(&mut shared.is_syncing, true)
        };
        if begins {
            let _ends = Ends(self);
            loop {
                let waiting = std::mem::take(&mut self.0.borrow_mut().waiting);
                if waiting.is_empty() {
                    break;
                }
                let result = transfer::sync_directory(disk, directory).await;
                for tell in waiting {
                    // Who does not wait any more needs no answer.
                    let _ = tell.send(result.clone());
                }
            }
        }
        match told.await {
            Ok(result) => result,
            // Whoever synced for all was dropped on the way: this one syncs for itself.
            Err(_) => transfer::sync_directory(disk, directory).await,
        }
    }
}

/// Lets somebody else begin, also when the one who synced is dropped on the way.
struct Ends<'a>(&'a Together);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        let mut shared = self.0.0.borrow_mut();
        shared.is_syncing = false;
        shared.waiting.clear();
    }
}
