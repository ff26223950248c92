//! The progress bar. Nothing is drawn while something is measured, and nothing at all where no terminal is.

use indicatif::{ProgressBar, ProgressStyle};

/// How far the run has come, in windows.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar over so many windows.
    pub fn over(windows: u64) -> Progress {
        let bar = ProgressBar::new(windows);
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {elapsed} of about {duration}  {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Progress(bar)
    }

    /// Says what comes now.
    pub fn say(&self, what: String) {
        self.0.set_message(what);
        self.0.tick();
    }

    /// A window is done.
    pub fn step(&self) {
        self.0.inc(1);
    }

    /// The bar goes, so that the table has the screen.
    pub fn end(&self) {
        self.0.finish_and_clear();
    }
}
