//! Collecting: every answer that has come is checked against the model, and the model takes it over.

use super::checker;
use super::machine::Machine;
use super::model::Model;
use super::running::{AskedAppend, AskedRead};
use super::violation::{Checked, broken, ensure};
use strandline::{AppendError, LogError, ReadAnswer, ReadError, Receipt};

impl Machine {
    /// Takes every answer that has come: appends, then verbs, since a verb is answered when all before it was, then the rest.
    pub(super) fn collect(&mut self) -> Checked {
        self.collect_appends()?;
        self.collect_verbs()?;
        self.collect_logs()?;
        self.collect_waits()?;
        self.collect_reads()
    }

    fn collect_appends(&mut self) -> Checked {
        let (tolerant, model) = (self.tolerant, &mut self.model);
        let Some(running) = self.running.as_mut() else { return Ok(()) };
        let (mut outcome, receipts) = (Ok(()), &mut running.receipts);
        running.appends.retain_mut(|asked| match asked.answer.try_take() {
            None => true,
            Some(answer) => {
                if let Ok(receipt) = &answer {
                    receipts.insert(asked.log, *receipt);
                }
                let taken = take_append(model, asked, answer, tolerant);
                outcome = std::mem::replace(&mut outcome, Ok(())).and(taken);
                false
            }
        });
        outcome
    }

    fn collect_logs(&mut self) -> Checked {
        let (tolerant, model) = (self.tolerant, &mut self.model);
        let Some(running) = self.running.as_mut() else { return Ok(()) };
        let (mut outcome, opened, shards) = (Ok(()), &mut running.opened, running.queues.len());
        running.opening.retain_mut(|asked| match asked.answer.try_take() {
            None => true,
            Some(Ok(log)) => {
                // Asked for before it was deleted: that one is gone.
                if !model.log(asked.log).is_going() && !model.log(asked.log).gone {
                    let shard = super::running::shard_of(&log.shared.id, shards);
                    opened.insert(asked.log, (shard, log));
                    model.log(asked.log).made = true;
                }
                false
            }
            Some(Err(error)) => {
                outcome = std::mem::replace(&mut outcome, Ok(())).and(take_log_error(&error, tolerant));
                false
            }
        });
        outcome
    }

    fn collect_waits(&mut self) -> Checked {
        let (tolerant, model) = (self.tolerant, &mut self.model);
        let Some(running) = self.running.as_mut() else { return Ok(()) };
        let mut outcome = Ok(());
        running.durable.retain_mut(|asked| match asked.answer.try_take() {
            None => true,
            Some(Ok(())) => {
                if model.log(asked.log).version == asked.version {
                    model.durable_through(asked.log, asked.end);
                }
                false
            }
            Some(Err(error)) => {
                // By a cut whose own answer comes when the fence and the footer behind it are durable, perhaps.
                let log = model.log(asked.log);
                let taken_away = log.version != asked.version || log.changes.iter().any(|asked| asked.change.drops());
                let fits = ensure(tolerant || taken_away, "what was answered becomes durable", || error.to_string());
                outcome = std::mem::replace(&mut outcome, Ok(())).and(fits);
                false
            }
        });
        outcome
    }

    fn collect_reads(&mut self) -> Checked {
        let (tolerant, model) = (self.tolerant, &mut self.model);
        let Some(running) = self.running.as_mut() else { return Ok(()) };
        let mut outcome = Ok(());
        running.reads.retain_mut(|asked| match asked.answer.try_take() {
            None => true,
            Some(answer) => {
                let taken = take_read(model, asked, &answer, tolerant);
                outcome = std::mem::replace(&mut outcome, Ok(())).and(taken);
                false
            }
        });
        outcome
    }
}

fn take_append(
    model: &mut Model,
    asked: &AskedAppend,
    answer: Result<Receipt, AppendError>,
    tolerant: bool,
) -> Checked {
    let error = match answer {
        Ok(receipt) => {
            ensure(!asked.must_be_refused, "a fenced log takes no appends", || format!("{receipt:?}"))?;
            let follows = asked.expected.is_none_or(|expected| expected == receipt.first);
            ensure(follows, "what follows gets the offset that it was given", || {
                format!("{receipt:?} for {:?}", asked.expected)
            })?;
            return model.acknowledge(asked.log, asked.serial, &receipt, tolerant);
        }
        Err(error) => error,
    };
    let log = model.log(asked.log);
    let refused = match &error {
        AppendError::Truncating { .. } | AppendError::Fenced { .. } => asked.may_be_refused || log.fence.is_some(),
        AppendError::Deleted { .. } => log.gone || log.is_going(),
        // What was sent before it is answered, so that the end is known, unless something of that was refused.
        AppendError::OutOfSync { expected, end, .. } => {
            let right = log.offset_of(asked.serial) == Some(*expected) && !asked.may_be_refused;
            asked.expected == Some(*expected) && expected != end && !right
        }
        _ => false,
    };
    ensure(tolerant || refused, "an append fails only when something failed", || error.to_string())?;
    match error {
        AppendError::Failed { latch, .. } => model.fail(asked.log, asked.serial, latch.source.is_without_room()),
        AppendError::ShardGone => model.fail(asked.log, asked.serial, false),
        _ => model.refuse(asked.log, asked.serial),
    }
    Ok(())
}

fn take_log_error(error: &LogError, tolerant: bool) -> Checked {
    ensure(tolerant, "a log can be made", || error.to_string())
}

fn take_read(model: &mut Model, asked: &AskedRead, answer: &ReadAnswer, tolerant: bool) -> Checked {
    let log = model.log(asked.log);
    let is_cut = log.changes.iter().any(|asked| asked.change.takes_away());
    if is_cut || log.version != asked.version {
        // Something was taken away while it read: it may have seen the log before or after that, and no damage.
        let seen_well = matches!(answer, Ok(_) | Err(ReadError::OutOfRange { .. } | ReadError::Deleted { .. }));
        return ensure(tolerant || seen_well, "bytes read equal bytes appended", || format!("{answer:?}"));
    }
    match answer {
        Ok(read) => {
            let log = &model.logs[asked.log];
            if asked.past_durable {
                return checker::bytes_read_past_the_end_equal_bytes_sent(log, asked.offset, &read.batches);
            }
            // What was only written may have become durable without a word; once it was read it stays.
            checker::bytes_read_past_the_end_equal_bytes_sent(log, asked.offset, &read.batches)?;
            if let Some(last) = read.batches.last() {
                model.durable_through(asked.log, last.end());
            }
            let log = &model.logs[asked.log];
            checker::bytes_read_equal_bytes_appended(log, asked.offset, &read.batches)?;
            ensure(!read.batches.is_empty() || asked.offset >= asked.end, "what is durable can be read", || {
                format!("log {}: a read from {} gave nothing", log.id, asked.offset)
            })
        }
        Err(ReadError::Disk { .. } | ReadError::TooManyOpen { .. }) if tolerant => Ok(()),
        // What a failure took back is no longer there.
        Err(ReadError::OutOfRange { .. }) if tolerant && asked.past_durable => Ok(()),
        Err(error) => broken("bytes read equal bytes appended", error.to_string()),
    }
}
