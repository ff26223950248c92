//! Disk: an image that keeps a record of what it is asked to do.

use crate::clock::{Clock, Time};
use crate::cut::Event;
use crate::image::Image;
use std::io;
use std::sync::Arc;

/// A disk in memory.
#[derive(Debug)]
pub struct Disk {
    image: Image,
    record: Option<Record>,
}

#[derive(Debug)]
struct Record {
    base: Image,
    events: Vec<Event>,
    bytes: u64,
    clock: Clock,
}

/// What was recorded, and the disk as it was before.
#[derive(Debug)]
pub struct Recorded {
    /// The disk when the record began.
    pub base: Image,
    /// What it was asked to do since.
    pub events: Vec<Event>,
}

impl Disk {
    /// A disk that holds this, and keeps no record.
    pub fn new(image: Image) -> Disk {
        Disk { image, record: None }
    }

    /// What it holds now.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Begins a record, whose length `clock` shows. All that was written before it counts as flushed.
    pub fn begin(&mut self, clock: Clock) {
        self.record = Some(Record { base: self.image.clone(), events: Vec::new(), bytes: 0, clock });
    }

    /// Ends the record and gives it.
    pub fn end(&mut self) -> Option<Recorded> {
        self.record.take().map(|record| Recorded { base: record.base, events: record.events })
    }

    /// Writes. Gives how many bytes, and under which number [`Disk::done`] is to hear of it.
    ///
    /// # Errors
    /// The clock could not be set.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<(usize, Option<usize>)> {
        let written = self.image.write(offset, bytes);
        let number = self.record.as_ref().map(|record| record.events.len());
        self.note(|| Event::Write { offset, bytes: Arc::from(&bytes[..written]) })?;
        Ok((written, number))
    }

    /// A write is about to be answered.
    ///
    /// # Errors
    /// The clock could not be set.
    pub fn done(&mut self, number: usize) -> io::Result<()> {
        self.note(|| Event::Done(number))
    }

    /// A flush was asked.
    ///
    /// # Errors
    /// The clock could not be set.
    pub fn flush(&mut self) -> io::Result<()> {
        self.note(|| Event::Flush)
    }

    fn note(&mut self, event: impl FnOnce() -> Event) -> io::Result<()> {
        let Some(record) = &mut self.record else { return Ok(()) };
        let event = event();
        if let Event::Write { bytes, .. } = &event {
            record.bytes += bytes.len() as u64;
        }
        record.events.push(event);
        record.clock.set(Time { events: record.events.len() as u64, bytes: record.bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_begins_with_what_was_there_and_has_all_since() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("clock");
        let mut disk = Disk::new(Image::new(8192));
        disk.write(0, b"before").expect("written");
        disk.begin(Clock::make(&path).expect("made"));
        let (written, number) = disk.write(8190, b"after").expect("written");
        disk.done(number.expect("a record is kept")).expect("noted");
        disk.flush().expect("flushed");
        let time = Clock::open(&path).and_then(|clock| clock.read()).expect("read");
        assert_eq!((written, time), (2, Time { events: 3, bytes: 2 }));
        let recorded = disk.end().expect("a record");
        assert_eq!(recorded.base.read(0, 6), b"before");
        assert!(matches!(&recorded.events[..], [Event::Write { offset: 8190, .. }, Event::Done(0), Event::Flush]));
        assert_eq!(disk.image().read(8190, 2), b"af");
    }
}
