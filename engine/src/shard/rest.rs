//! Rest: a log that has been quiet for long is known to the manifest as clean, so that opening the store looks at none of its files.
//! Before it is written again the manifest is told that it is dirty, and a head that was never opened is read.

use super::command::LogNumber;
use super::rouse::{self, Roused};
use super::shard::{Event, Shard};
use super::timers::Timer;
use crate::config::sabotaged;
use crate::error::AppendError;
use crate::format::manifest::Edit;
use crate::log::clean_edit;
use crate::manifest::ManifestError;
use strandline_disk::{Disk, DiskError};

/// Why a log that rested could not be roused.
#[derive(Debug)]
pub(super) enum RouseError {
    /// The manifest was not told.
    Manifest(ManifestError),
    /// Its head could not be read.
    Disk(DiskError),
}

impl<D: Disk> Shard<D> {
    /// Tells the manifest of a log that has rested long that it is clean. True when an edit was handed in.
    pub(super) fn let_sleep(&mut self, number: LogNumber) -> bool {
        let log = &mut self.logs[number.0];
        let never = sabotaged!(self.config, NeverClean);
        // One that is being roused is about to be written.
        if log.clean || log.rousing || log.verb_at_work || never {
            return false;
        }
        let Some(edit) = clean_edit(log) else { return false };
        // From here on every write waits until the manifest has heard that the log is dirty again.
        log.clean = true;
        let durable = self.edits.submit(vec![edit]);
        self.spawn_background(number, async move { Event::Announced { log: number, result: durable.await } });
        true
    }

    /// Whether a log rests, and has to be roused before it is written.
    pub(super) fn rests(&self, number: LogNumber) -> bool {
        let log = &self.logs[number.0];
        log.clean || log.dormant.is_some()
    }

    /// Rouses a log, once.
    pub(super) fn rouse(&mut self, number: LogNumber) {
        let log = &mut self.logs[number.0];
        if std::mem::replace(&mut log.rousing, true) {
            return;
        }
        let dormant = log.dormant.clone();
        let closed = dormant.as_ref().and_then(|dormant| log.closed_at(dormant.seq)).cloned();
        // Durable before the first write: a crash in between would hide what was written.
        let durable = log.clean.then(|| self.edits.submit(vec![Edit::Dirty { log: log.id.clone() }]));
        let (disk, life, descriptors) = (self.disk.clone(), self.life, self.descriptors.clone());
        let writes_early = sabotaged!(self.config, WriteBeforeDirty);
        self.spawn_background(number, async move {
            let told = match durable {
                Some(durable) if !writes_early => durable.await,
                _ => Ok(()), // The manifest never heard that it was clean.
            };
            let result = match told {
                Err(error) => Err(RouseError::Manifest(error)),
                Ok(()) => match (&dormant, &closed) {
                    (Some(dormant), Some(closed)) => {
                        let roused = async {
                            let _room = descriptors.room(2).await?;
                            rouse::rouse(&disk, closed, dormant, life).await
                        };
                        roused.await.map(|roused| Some(Box::new(roused))).map_err(RouseError::Disk)
                    }
                    _ => Ok(None),
                },
            };
            Event::Roused { log: number, result }
        });
    }

    /// Takes over a log that was roused.
    pub(super) fn settle_roused(&mut self, number: LogNumber, result: Result<Option<Box<Roused>>, RouseError>) {
        self.logs[number.0].rousing = false;
        match result {
            Ok(roused) => {
                if let Some(roused) = roused {
                    self.take_roused(number, *roused);
                }
                self.logs[number.0].clean = false;
                // It may have been for its age; later it may have been let go of again.
                self.age_is_due(number);
                self.list(number);
                self.let_rest(number);
                self.close_later(number);
            }
            Err(error) => {
                let log = self.logs[number.0].id.clone();
                tracing::warn!(%log, ?error, "a log that rested could not be roused");
                let source = match error {
                    RouseError::Disk(source) => {
                        self.heed_disk_failure(&source);
                        if source.is_failed_flush() {
                            self.latch_now(number, &source); // It is not tried again: the next open looks.
                        }
                        source
                    }
                    RouseError::Manifest(error) => {
                        self.latch_what_the_manifest_took_along(&error);
                        super::settle::as_disk_error(&error)
                    }
                };
                let error = self.explain_append(AppendError::Rouse { log, source: source.clone() });
                self.refuse_all(number, &error);
                self.refuse_verb_at_rest(number, &source);
                self.watch_age_later(number); // It may have been for its age.
                if source.is_out_of_descriptors() {
                    self.let_rest(number); // It may have been for its mark.
                }
            }
        }
    }

    fn take_roused(&mut self, number: LogNumber, roused: Roused) {
        let log = &mut self.logs[number.0];
        let Some(dormant) = log.dormant.take() else { return };
        let place = log.closed.iter().position(|closed| closed.id.seq == dormant.seq);
        match roused {
            Roused::Active { active } => {
                if let Some(place) = place {
                    log.closed.remove(place);
                }
                log.active = Some(*active);
            }
            Roused::Damaged { closed, edit, sentences } => {
                if let Some(place) = place {
                    log.closed[place] = *closed;
                }
                sentences.iter().for_each(|sentence| tracing::error!("{sentence}"));
                let durable = self.edits.submit(vec![edit]);
                self.spawn_background(number, async move { Event::Announced { log: number, result: durable.await } });
            }
        }
    }

    /// Has a log looked at when it has been quiet for so long that it may sleep.
    pub(super) fn sleep_later(&mut self, number: LogNumber) {
        let after = self.config.idle_clean_after.as_nanos() as u64;
        self.timers.set(number, Timer::Sleep, self.now.boot_ns.saturating_add(after));
    }

    /// Lets a log sleep that has been quiet for long enough.
    pub(super) fn sleep_is_due(&mut self, number: LogNumber) {
        let log = &self.logs[number.0];
        let quiet_ns = self.now.boot_ns.saturating_sub(log.settled_ns);
        if quiet_ns >= self.config.idle_clean_after.as_nanos() as u64 {
            self.let_sleep(number);
        } else if log.active.is_some() || log.dormant.is_some() && !log.clean {
            self.sleep_later(number);
        }
    }
}
