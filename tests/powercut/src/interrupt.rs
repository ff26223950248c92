//! Interrupt: asks a run to stop, so that everything is taken down in its order.

use crate::error::{Trouble, system};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user has asked to stop.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for SIGINT, SIGTERM and SIGHUP.
    ///
    /// # Errors
    /// The handlers could not be set.
    pub fn listen() -> Result<Interrupt, Trouble> {
        let asked = Interrupt::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, asked.0.clone()).map_err(system("listening for signals"))?;
        }
        Ok(asked)
    }

    /// # Errors
    /// [`Trouble::Interrupted`] once the user has asked to stop.
    pub fn check(&self) -> Result<(), Trouble> {
        if self.0.load(Ordering::Relaxed) { Err(Trouble::Interrupted) } else { Ok(()) }
    }
}
