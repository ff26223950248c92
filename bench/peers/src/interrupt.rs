//! Ctrl-C: asks the run to stop, so that the directory it made is removed. A second one stops at once.

use crate::error::{PeersError, io};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code of a program that a signal ended, by convention of shells.
const EXIT_CODE: i32 = 130;

/// Whether the user has asked to stop.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for SIGINT and SIGTERM.
    ///
    /// # Errors
    /// The handlers could not be set.
    pub fn listen() -> Result<Interrupt, PeersError> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag down and only raises it.
            flag::register_conditional_shutdown(signal, EXIT_CODE, asked.clone())
                .map_err(io("listening for ctrl-C"))?;
            flag::register(signal, asked.clone()).map_err(io("listening for ctrl-C"))?;
        }
        Ok(Interrupt(asked))
    }

    /// True once the user has asked to stop.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    /// [`PeersError::Interrupted`] once the user has asked to stop.
    pub fn check(&self) -> Result<(), PeersError> {
        if self.asked() { Err(PeersError::Interrupted) } else { Ok(()) }
    }
}
