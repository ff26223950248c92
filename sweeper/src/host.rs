//! The host as an authority: asked page by page, within a deadline. What comes later counts for nothing.

use crate::decide::{AuthorityError, Standing};
use std::fmt::Display;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Instant;
use strandline::id::SegmentId;
use strandline::pending::Pending;
use strandline::{Forgotten, Store};

/// A host that keeps the list of segments.
pub(crate) struct HostKeeps<'a> {
    pub(crate) store: &'a Store,
    pub(crate) deadline: Instant,
    pub(crate) at_once: usize,
}

impl HostKeeps<'_> {
    /// How these segments stand.
    pub(crate) fn standings(&self, page: &[SegmentId]) -> Result<Vec<(SegmentId, Standing)>, AuthorityError> {
        let answered = ask(self.store, page, self.deadline)?;
        answered.ok_or_else(|| no_answer("the host kept the list, and does not any more"))
    }
}

/// Asks the host. `None` when the store keeps the list.
pub(crate) fn ask(
    store: &Store,
    page: &[SegmentId],
    deadline: Instant,
) -> Result<Option<Vec<(SegmentId, Standing)>>, AuthorityError> {
    answer_of(store.ask_host(page), deadline)
}

/// Has the host forget segments. `None` when the store keeps the list.
pub(crate) fn forget(
    store: &Store,
    page: &[SegmentId],
    deadline: Instant,
) -> Result<Option<Vec<(SegmentId, Forgotten)>>, AuthorityError> {
    answer_of(store.have_host_forget(page), deadline)
}

fn answer_of<T: Send + 'static, E: Display + Send + 'static>(
    pending: Option<Pending<Result<Option<T>, E>>>,
    deadline: Instant,
) -> Result<Option<T>, AuthorityError> {
    let Some(pending) = pending else { return Ok(None) };
    let (give, given) = sync_channel(1);
    // Whoever answers too late is heard by nobody.
    pending.on_ready(move |answer| drop(give.try_send(answer)));
    let answer =
        given.recv_timeout(deadline.saturating_duration_since(Instant::now())).map_err(|error| match error {
            RecvTimeoutError::Timeout => no_answer("its time was up"),
            RecvTimeoutError::Disconnected => no_answer("it let go of the question"),
        })?;
    answer.map_err(|failed| no_answer(failed.to_string()))
}

pub(crate) fn no_answer(reason: impl Into<String>) -> AuthorityError {
    AuthorityError { reason: reason.into() }
}
