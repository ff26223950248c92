//! Topics and what is in them: made, listed, deleted. A topic is there while it has a range.

use super::log::Log;
use super::store::Store;
use super::verbs::Asked;
use crate::error::{LogError, VerbError};
use crate::id::{LogId, RangeNumber, SegmentId, Topic};
use crate::pending::pair;
use crate::shard::command::Command;
use crate::shard::verb::LogInfo;
use std::collections::BTreeMap;
use std::time::Duration;

/// All that a store holds: the logs of each topic, in the order of their ranges.
pub type Inventory = BTreeMap<Topic, Vec<LogInfo>>;

impl Store {
    /// Makes the ranges `0..ranges` of a topic, durably, where they do not exist, and opens them.
    ///
    /// # Errors
    /// [`LogError`]; what was made before it stays, and the same call goes on from there.
    pub fn create_topic(&self, topic: &Topic, ranges: u32) -> Result<Vec<Log>, LogError> {
        if ranges.checked_sub(1).is_some_and(|last| RangeNumber::new(last).is_none()) {
            return Err(LogError::TooManyRanges { ranges });
        }
        let numbers = (0..ranges).map(|number| RangeNumber::new(number).ok_or(LogError::TooManyRanges { ranges }));
        numbers.map(|number| self.log(topic, number?)).collect()
    }

    /// Everything that the store holds, as its shards know it: nothing is read from the disk.
    ///
    /// # Errors
    /// [`VerbError`].
    pub fn inventory(&self) -> Result<Inventory, VerbError> {
        let mut inventory = Inventory::new();
        let asked: Vec<_> = self
            .queues()
            .map(|queue| {
                let (answer, pending) = pair();
                match queue.room() {
                    Ok(admitted) => queue.push(Command::Inventory { answer, admitted }),
                    Err(refused) => answer.give(Err(refused)),
                }
                pending
            })
            .collect();
        for pending in asked {
            for log in pending.wait()? {
                inventory.entry(log.id.topic.clone()).or_default().push(log);
            }
        }
        inventory.values_mut().for_each(|logs| logs.sort_by_key(|log| log.id.range));
        Ok(inventory)
    }

    /// The topics, with the ranges of each.
    ///
    /// # Errors
    /// [`VerbError`].
    pub fn topics(&self) -> Result<BTreeMap<Topic, Vec<RangeNumber>>, VerbError> {
        let ranges = |logs: Vec<LogInfo>| logs.into_iter().map(|log| log.id.range).collect();
        Ok(self.inventory()?.into_iter().map(|(topic, logs)| (topic, ranges(logs))).collect())
    }

    /// Deletes a range of a topic with all its records, durably; whoever holds it is told. One that does not exist is no error.
    ///
    /// # Errors
    /// [`VerbError`].
    pub fn delete_log(&self, topic: &Topic, range: RangeNumber) -> Result<(), VerbError> {
        match self.find(topic, range)? {
            Some(log) => log.ask(|answer| crate::shard::verb::Verb::Delete { answer }).wait(),
            None => Ok(()),
        }
    }

    /// Deletes a topic with all its ranges. One that does not exist is no error.
    ///
    /// # Errors
    /// [`VerbError`]; what was deleted before it stays so, and the same call goes on from there.
    pub fn delete_topic(&self, topic: &Topic) -> Result<(), VerbError> {
        let ranges = self.topics()?.remove(topic).unwrap_or_default();
        ranges.into_iter().try_for_each(|range| self.delete_log(topic, range))
    }

    /// Deletes a segment, which must be the oldest of its log, durably. One that does not exist is no error.
    ///
    /// # Errors
    /// [`VerbError`].
    pub fn delete_segment(&self, segment: &SegmentId) -> Result<(), VerbError> {
        match self.find(&segment.log.topic, segment.log.range)? {
            Some(log) => log.delete_segment(segment.seq).wait(),
            None => Ok(()),
        }
    }

    /// Removes a directory below the root that reads as that of a segment, and is that of none that the store knows.
    ///
    /// # Errors
    /// [`VerbError::Known`], [`VerbError::Foreign`], or what the disk answered.
    pub fn delete_directory(&self, name: &str) -> Result<(), VerbError> {
        let queue = self.manifest_queue();
        let admitted = queue.room()?;
        let (answer, pending) = pair();
        queue.push(Command::DeleteDirectory { name: name.to_owned(), answer, admitted });
        pending.wait()
    }

    /// Which of these logs are fenced; a log that does not exist is not.
    ///
    /// # Errors
    /// [`VerbError`].
    pub fn fenced(&self, logs: &[LogId]) -> Result<Vec<bool>, VerbError> {
        self.each(logs, |log| log.fence.is_some())
    }

    /// Which of these logs have failed and take no appends; a log that does not exist has not.
    ///
    /// # Errors
    /// [`VerbError`].
    pub fn failed(&self, logs: &[LogId]) -> Result<Vec<bool>, VerbError> {
        self.each(logs, |log| log.failed.is_some())
    }

    /// How many bytes a segment's batches have, as far as is known without opening anything; `None` when there is no such segment.
    ///
    /// # Errors
    /// [`VerbError`].
    pub fn stored_bytes(&self, segment: &SegmentId) -> Result<Option<u64>, VerbError> {
        let logs = self.inventory()?.remove(&segment.log.topic).unwrap_or_default();
        let log = logs.into_iter().find(|log| log.id == segment.log);
        let of = log.and_then(|log| log.segments.into_iter().find(|of| of.seq == segment.seq));
        Ok(of.map(|of| of.byte_size))
    }

    fn each(&self, logs: &[LogId], is: impl Fn(&LogInfo) -> bool) -> Result<Vec<bool>, VerbError> {
        let inventory = self.inventory()?;
        let find = |id: &LogId| inventory.get(&id.topic)?.iter().find(|log| log.id == *id);
        Ok(logs.iter().map(|id| find(id).is_some_and(&is)).collect())
    }

    /// Has the segments of a log rolled at this age, from 60 s on, until the store is closed; `None` is off. A sweep sets what the topic's
    /// policy says. Nothing durable changes, and it waits for nothing else that was asked of the log. The answer is an error when there
    /// is no such log ([`VerbError::NoSuchLog`]) or the age is too short ([`VerbError::SegmentMaxAgeTooShort`]).
    pub fn set_segment_max_age(&self, log: &LogId, age: Option<Duration>) -> Asked<()> {
        let (answer, pending) = pair();
        let queue = self.queue_of(log);
        match queue.room() {
            Ok(admitted) => queue.push(Command::SegmentMaxAge { log: log.clone(), age, answer, admitted }),
            Err(refused) => answer.give(Err(refused)),
        }
        pending
    }

    /// A log that exists already; none is made.
    ///
    /// # Errors
    /// [`VerbError`].
    pub fn find(&self, topic: &Topic, range: RangeNumber) -> Result<Option<Log>, VerbError> {
        let exists = self.topics()?.get(topic).is_some_and(|ranges| ranges.contains(&range));
        if !exists {
            return Ok(None);
        }
        self.log(topic, range).map(Some).map_err(|error| match error {
            LogError::Closed => VerbError::Closed,
            LogError::Overloaded { outstanding, limit } => VerbError::Overloaded { outstanding, limit },
            _ => VerbError::ShardGone,
        })
    }
}
