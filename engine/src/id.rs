//! Ids: what logs, segments, files and stores are called, and the numbers that order them.
//!
//! Plain values, without knowledge of names on disk (`layout`) or of bytes (`format`).
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::arithmetic_side_effects
    )
)]

use std::fmt;
use std::sync::Arc;

/// The longest topic whose segments get a readable directory name, in bytes.
pub const TOPIC_BYTES_MAX_READABLE: usize = 231;

/// The longest topic whose segments get an encoded directory name, in bytes.
pub const TOPIC_BYTES_MAX_ENCODED: usize = 171;

/// The largest range number and the largest seq: directory names hold them as signed 32-bit numbers.
pub const NUMBER_MAX: u32 = i32::MAX as u32;

/// The name of a topic: any bytes, none included, short enough that every segment of it has a directory name.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(Arc<[u8]>);

/// Why bytes are no [`Topic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopicError {
    /// Too long for a readable directory name.
    #[error("the topic has {bytes} bytes; a topic of only letters, digits, '.', '_' and '-' has at most {limit}")]
    Readable {
        /// The length of the refused topic.
        bytes: usize,
        /// The longest one that would do.
        limit: usize,
    },
    /// Too long for an encoded directory name.
    #[error("the topic has {bytes} bytes; one that is not only letters, digits, '.', '_' and '-' has at most {limit}")]
    Encoded {
        /// The length of the refused topic.
        bytes: usize,
        /// The longest one that would do.
        limit: usize,
    },
}

impl Topic {
    /// Checks the length of `name` and makes a topic of it.
    ///
    /// # Errors
    /// [`TopicError`] when the directory name of some segment of the topic could pass 255 bytes.
    pub fn new(name: impl AsRef<[u8]>) -> Result<Topic, TopicError> {
        let name = name.as_ref();
        let bytes = name.len();
        match is_readable(name) {
            true if bytes > TOPIC_BYTES_MAX_READABLE => {
                Err(TopicError::Readable { bytes, limit: TOPIC_BYTES_MAX_READABLE })
            }
            false if bytes > TOPIC_BYTES_MAX_ENCODED => {
                Err(TopicError::Encoded { bytes, limit: TOPIC_BYTES_MAX_ENCODED })
            }
            _ => Ok(Topic(Arc::from(name))),
        }
    }

    /// The bytes of the name.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The name as text, when it can stand in a directory name as it is.
    #[must_use]
    pub fn as_readable(&self) -> Option<&str> {
        if is_readable(&self.0) { std::str::from_utf8(&self.0).ok() } else { None }
    }
}

fn is_readable(name: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !matches!(name, b"" | b"." | b"..") && name.iter().all(plain)
}

impl AsRef<[u8]> for Topic {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_readable() {
            Some(text) => f.write_str(text),
            None => write!(f, "\"{}\"", self.0.escape_ascii()),
        }
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

macro_rules! small_number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// The number, or nothing above 2^31-1.
            #[must_use]
            pub const fn new(number: u32) -> Option<$name> {
                if number <= NUMBER_MAX { Some($name(number)) } else { None }
            }

            /// The plain number.
            #[must_use]
            pub const fn get(self) -> u32 {
                self.0
            }

            /// The next number, or nothing after 2^31-1.
            #[must_use]
            pub const fn next(self) -> Option<$name> {
                $name::new(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

small_number! {
    /// Which range of its topic a log is, at most 2^31-1.
    RangeNumber
}

small_number! {
    /// Which segment of its log a segment is, at most 2^31-1. Never used twice in one log.
    Seq
}

/// One ordered log: a range of a topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId {
    /// The topic.
    pub topic: Topic,
    /// Which range of it.
    pub range: RangeNumber,
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-r{}", self.topic, self.range)
    }
}

/// One segment of a log. Its `Display` is the name of its directory; see `layout`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId {
    /// The log.
    pub log: LogId,
    /// Which segment of it.
    pub seq: Seq,
}

macro_rules! plain_number {
    ($(#[$doc:meta])* $name:ident($inner:ty), $shape:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $shape, self.0)
            }
        }
    };
}

/// The largest generation that a file found on a disk may say: no store reaches it, so that each one that is believed has a next.
pub const GENERATION_MAX: u32 = u32::MAX / 2;

plain_number! {
    /// Which data file of its segment a file is. Compaction raises it.
    Generation(u32), "{}"
}

plain_number! {
    /// What tells a file from every other one, its own former lives included: random, never shown to clients.
    Uid(u128), "{:032x}"
}

plain_number! {
    /// What tells a store from every other one: random, made once.
    StoreId(u128), "{:032x}"
}

plain_number! {
    /// Which record of its log a record is. Never a position: positions count bytes.
    Offset(u64), "{}"
}

plain_number! {
    /// How often a log had been truncated. Batches of an older epoch past the cut never come back.
    Epoch(u64), "{}"
}

plain_number! {
    /// How often the store had been opened.
    Life(u64), "{}"
}

/// Where a log was truncated: from `end` on only batches of `epoch` or newer belong to it.
///
/// A log has only its newest one. What an older cut had dropped was cleared before anything was appended behind that cut, and a newer
/// cut never lies behind the end of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The offset that the first record after the truncation got. Everything below it had been durable.
    pub end: Offset,
    /// The log's epoch since then.
    pub epoch: Epoch,
}

impl Cut {
    /// Whether it dropped the batch or mark that starts at `first` and was written in `epoch`.
    #[must_use]
    pub fn drops(&self, first: Offset, epoch: Epoch) -> bool {
        first >= self.end && epoch < self.epoch
    }
}

impl Offset {
    /// The offset `records` further on, saturating at the end of the number range.
    #[must_use]
    pub fn plus(self, records: u64) -> Offset {
        Offset(self.0.saturating_add(records))
    }

    /// The span from `earlier` to here; 0 when `earlier` is not earlier.
    #[must_use]
    pub fn since(self, earlier: Offset) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_taken_at_its_limit_and_refused_one_past_it() {
        assert!(Topic::new("x".repeat(231)).is_ok());
        let refused = Topic::new("x".repeat(232)).expect_err("one past the limit");
        assert_eq!(refused, TopicError::Readable { bytes: 232, limit: 231 });
        assert!(refused.to_string().contains("at most 231"), "{refused}");

        assert!(Topic::new("/".repeat(171)).is_ok());
        let refused = Topic::new("/".repeat(172)).expect_err("one past the limit");
        assert_eq!(refused, TopicError::Encoded { bytes: 172, limit: 171 });
        assert!(refused.to_string().contains("at most 171"), "{refused}");
    }

    #[test]
    fn a_topic_prints_readable_or_escaped() {
        let shown = |name: &[u8]| Topic::new(name).expect("a short topic").to_string();
        assert_eq!(shown(b"orders.v1"), "orders.v1");
        assert_eq!(shown(b"a/b"), "\"a/b\"");
        assert_eq!(shown(b"\xc3\xa9\n"), r#""\xc3\xa9\n""#);
        assert_eq!(shown(b""), "\"\"");
        assert_eq!(shown(b".."), "\"..\"");
    }

    #[test]
    fn ranges_and_seqs_end_at_a_signed_32_bit_number() {
        let last = Seq::new(2_147_483_647).expect("the largest seq");
        assert_eq!(last.next(), None);
        assert_eq!(Seq::new(2_147_483_648), None);
        assert_eq!(RangeNumber::new(u32::MAX), None);
        assert_eq!(RangeNumber::default().next(), RangeNumber::new(1));
    }

    #[test]
    fn a_uid_prints_with_all_its_digits() {
        assert_eq!(Uid(0xab).to_string(), "000000000000000000000000000000ab");
    }
}
