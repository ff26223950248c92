//! Edits: the changes of what the manifest says, and their bytes.
//!
//! What edits add up to is not known here.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use super::field::{Reader, Writer, log_of, segment_of};
use crate::id::{Epoch, Generation, Life, LogId, Offset, SegmentId, Uid};
use strandline_disk::Position;

/// The bytes of an edit in front of its fields: kind and length.
pub(super) const EDIT_HEADER_BYTES: usize = 5;

/// Why the bytes of a segment are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReleaseReason {
    /// Retention, truncation or a dropped log: nobody may read it any more.
    Expired,
    /// A newer generation of the segment took its place.
    Superseded,
    /// No manifest knew it.
    Orphan,
}

impl ReleaseReason {
    fn number(self) -> u8 {
        match self {
            ReleaseReason::Expired => 1,
            ReleaseReason::Superseded => 2,
            ReleaseReason::Orphan => 3,
        }
    }

    fn of(number: u8) -> Option<ReleaseReason> {
        let all = [ReleaseReason::Expired, ReleaseReason::Superseded, ReleaseReason::Orphan];
        all.into_iter().find(|reason| reason.number() == number)
    }
}

/// One change of what the manifest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The store was opened.
    Opened {
        /// How often, this time included.
        life: Life,
    },
    /// A log was created.
    LogCreated {
        /// The log.
        log: LogId,
    },
    /// A file was made ahead for a segment.
    Prepared {
        /// The segment.
        segment: SegmentId,
        /// The file.
        uid: Uid,
        /// Which data file of the segment it is.
        generation: Generation,
        /// The file's size in bytes.
        size: u64,
        /// The most bytes that may be in flight past any durable end.
        look_ahead: u64,
    },
    /// A segment became its log's last one and takes appends.
    Live {
        /// The segment.
        segment: SegmentId,
        /// The offset of its first record.
        base: Offset,
        /// When it took its first batch, wall ms.
        opened_at_ms: u64,
    },
    /// A segment got its footer and never changes again.
    Sealed {
        /// The segment.
        segment: SegmentId,
        /// One past its last offset.
        end: Offset,
        /// Its bytes without header block, preallocation or padding to a block.
        logical_bytes: u64,
        /// When the store took its first batch, wall ms; 0 when there is no batch.
        first_store_time_ms: u64,
        /// When the store took its last batch, wall ms; 0 when there is no batch.
        last_store_time_ms: u64,
        /// When it was sealed, wall ms.
        sealed_at_ms: u64,
    },
    /// A segment is damaged below its end and is never appended to.
    Fenced {
        /// The segment.
        segment: SegmentId,
        /// One past its last offset.
        end: Offset,
        /// The position of its end.
        end_position: Position,
    },
    /// A log starts later, or was truncated.
    StartOffset {
        /// The log.
        log: LogId,
        /// The first offset that may be read.
        start: Offset,
        /// The log's epoch.
        epoch: Epoch,
    },
    /// A file is given up.
    Released {
        /// The segment that it belonged to.
        segment: SegmentId,
        /// The file.
        uid: Uid,
        /// Which data file of the segment it was.
        generation: Generation,
        /// Why.
        reason: ReleaseReason,
        /// Its bytes stay until then, wall ms.
        hold_until_ms: u64,
    },
    /// The bytes of a released file are gone.
    Gone {
        /// The file.
        uid: Uid,
    },
}

/// Why bytes are not an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The bytes end within the edit, or its fields end within its length.
    #[error("the edit is cut short")]
    Short,
    /// This release knows no such edit.
    #[error("an edit of kind {0} is unknown to this release")]
    Kind(u8),
    /// A field holds what it never may.
    #[error("the edit's field {0} holds what it never may")]
    Field(&'static str),
    /// The edit is longer than its fields.
    #[error("the edit is longer than its fields")]
    Long,
}

impl Edit {
    fn kind(&self) -> u8 {
        match self {
            Edit::Opened { .. } => 1,
            Edit::LogCreated { .. } => 2,
            Edit::Prepared { .. } => 3,
            Edit::Live { .. } => 4,
            Edit::Sealed { .. } => 5,
            Edit::Fenced { .. } => 6,
            Edit::StartOffset { .. } => 7,
            Edit::Released { .. } => 8,
            Edit::Gone { .. } => 9,
        }
    }

    /// The edit's length in a frame, in bytes.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        let log = |log: &LogId| 4 + 2 + log.topic.as_bytes().len();
        let segment = |segment: &SegmentId| log(&segment.log) + 4;
        let fields = match self {
            Edit::Opened { .. } => 8,
            Edit::LogCreated { log: of } => log(of),
            Edit::Prepared { segment: of, .. } => segment(of) + 16 + 4 + 8 + 8,
            Edit::Live { segment: of, .. } => segment(of) + 8 + 8,
            Edit::Sealed { segment: of, .. } => segment(of) + 5 * 8,
            Edit::Fenced { segment: of, .. } => segment(of) + 8 + 8,
            Edit::StartOffset { log: of, .. } => log(of) + 8 + 8,
            Edit::Released { segment: of, .. } => segment(of) + 16 + 4 + 1 + 8,
            Edit::Gone { .. } => 16,
        };
        EDIT_HEADER_BYTES + fields
    }

    /// Writes the edit into room that has exactly its length.
    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        writer.u8(self.kind());
        writer.u32((self.encoded_bytes() - EDIT_HEADER_BYTES) as u32);
        match self {
            Edit::Opened { life } => writer.u64(life.0),
            Edit::LogCreated { log } => write_log(writer, log),
            Edit::Prepared { segment, uid, generation, size, look_ahead } => {
                write_segment(writer, segment);
                writer.u128(uid.0);
                writer.u32(generation.0);
                writer.u64(*size);
                writer.u64(*look_ahead);
            }
            Edit::Live { segment, base, opened_at_ms } => {
                write_segment(writer, segment);
                writer.u64(base.0);
                writer.u64(*opened_at_ms);
            }
            Edit::Sealed { segment, end, logical_bytes, first_store_time_ms, last_store_time_ms, sealed_at_ms } => {
                write_segment(writer, segment);
                for field in [end.0, *logical_bytes, *first_store_time_ms, *last_store_time_ms, *sealed_at_ms] {
                    writer.u64(field);
                }
            }
            Edit::Fenced { segment, end, end_position } => {
                write_segment(writer, segment);
                writer.u64(end.0);
                writer.u64(end_position.0);
            }
            Edit::StartOffset { log, start, epoch } => {
                write_log(writer, log);
                writer.u64(start.0);
                writer.u64(epoch.0);
            }
            Edit::Released { segment, uid, generation, reason, hold_until_ms } => {
                write_segment(writer, segment);
                writer.u128(uid.0);
                writer.u32(generation.0);
                writer.u8(reason.number());
                writer.u64(*hold_until_ms);
            }
            Edit::Gone { uid } => writer.u128(uid.0),
        }
    }

    /// Reads the edit at the front of `reader`.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Edit, EditError> {
        let kind = reader.u8().ok_or(EditError::Short)?;
        let length = reader.length().ok_or(EditError::Short)?;
        let mut fields = Reader::new(reader.bytes(length).ok_or(EditError::Short)?);
        let edit = read_fields(kind, &mut fields)?;
        if fields.rest().is_empty() { Ok(edit) } else { Err(EditError::Long) }
    }
}

fn read_fields(kind: u8, fields: &mut Reader<'_>) -> Result<Edit, EditError> {
    let edit = match kind {
        1 => Edit::Opened { life: Life(read_u64(fields)?) },
        2 => Edit::LogCreated { log: read_log(fields)? },
        3 => Edit::Prepared {
            segment: read_segment(fields)?,
            uid: read_uid(fields)?,
            generation: Generation(read_u32(fields)?),
            size: read_u64(fields)?,
            look_ahead: read_u64(fields)?,
        },
        4 => Edit::Live {
            segment: read_segment(fields)?,
            base: Offset(read_u64(fields)?),
            opened_at_ms: read_u64(fields)?,
        },
        5 => Edit::Sealed {
            segment: read_segment(fields)?,
            end: Offset(read_u64(fields)?),
            logical_bytes: read_u64(fields)?,
            first_store_time_ms: read_u64(fields)?,
            last_store_time_ms: read_u64(fields)?,
            sealed_at_ms: read_u64(fields)?,
        },
        6 => Edit::Fenced {
            segment: read_segment(fields)?,
            end: Offset(read_u64(fields)?),
            end_position: Position(read_u64(fields)?),
        },
        7 => Edit::StartOffset {
            log: read_log(fields)?,
            start: Offset(read_u64(fields)?),
            epoch: Epoch(read_u64(fields)?),
        },
        8 => Edit::Released {
            segment: read_segment(fields)?,
            uid: read_uid(fields)?,
            generation: Generation(read_u32(fields)?),
            reason: ReleaseReason::of(fields.u8().ok_or(EditError::Short)?).ok_or(EditError::Field("reason"))?,
            hold_until_ms: read_u64(fields)?,
        },
        9 => Edit::Gone { uid: read_uid(fields)? },
        unknown => return Err(EditError::Kind(unknown)),
    };
    Ok(edit)
}

fn write_log(writer: &mut Writer<'_>, log: &LogId) {
    let topic = log.topic.as_bytes();
    writer.u32(log.range.get());
    writer.u16(topic.len() as u16);
    writer.bytes(topic);
}

fn write_segment(writer: &mut Writer<'_>, segment: &SegmentId) {
    write_log(writer, &segment.log);
    writer.u32(segment.seq.get());
}

fn read_log(fields: &mut Reader<'_>) -> Result<LogId, EditError> {
    let range = read_u32(fields)?;
    let topic = fields.short_bytes().ok_or(EditError::Short)?;
    log_of(range, topic).map_err(EditError::Field)
}

fn read_segment(fields: &mut Reader<'_>) -> Result<SegmentId, EditError> {
    let range = read_u32(fields)?;
    let topic = fields.short_bytes().ok_or(EditError::Short)?;
    let seq = read_u32(fields)?;
    segment_of(range, seq, topic).map_err(EditError::Field)
}

fn read_u32(fields: &mut Reader<'_>) -> Result<u32, EditError> {
    fields.u32().ok_or(EditError::Short)
}

fn read_u64(fields: &mut Reader<'_>) -> Result<u64, EditError> {
    fields.u64().ok_or(EditError::Short)
}

fn read_uid(fields: &mut Reader<'_>) -> Result<Uid, EditError> {
    fields.u128().map(Uid).ok_or(EditError::Short)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::any;
    use super::*;
    use proptest::prelude::*;

    fn encode(edit: &Edit) -> Vec<u8> {
        let mut bytes = vec![0; edit.encoded_bytes()];
        edit.write(&mut Writer::new(&mut bytes));
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Edit, EditError> {
        Edit::read(&mut Reader::new(bytes))
    }

    /// One edit of every kind, with its bytes as the table of FORMAT.md lays them out.
    fn by_the_table() -> Vec<(Edit, Vec<u8>)> {
        let segment = segment_of(0x0102_0304, 0x1112_1314, b"ab").expect("a valid id");
        let log = segment.log.clone();
        let log_bytes = [4, 3, 2, 1, 2, 0, b'a', b'b'];
        let segment_bytes = [&log_bytes[..], &[0x14, 0x13, 0x12, 0x11]].concat();
        let number = |byte: u8| u64::from_le_bytes([byte; 8]);
        let uid = Uid(u128::from_le_bytes([9; 16]));
        let generation = Generation(0x0707_0707);
        let edit = |kind: u8, parts: &[&[u8]]| {
            let fields = parts.concat();
            [&[kind][..], &(fields.len() as u32).to_le_bytes(), &fields].concat()
        };
        vec![
            (Edit::Opened { life: Life(number(1)) }, edit(1, &[&[1; 8]])),
            (Edit::LogCreated { log: log.clone() }, edit(2, &[&log_bytes])),
            (
                Edit::Prepared { segment: segment.clone(), uid, generation, size: number(2), look_ahead: number(3) },
                edit(3, &[&segment_bytes, &[9; 16], &[7; 4], &[2; 8], &[3; 8]]),
            ),
            (
                Edit::Live { segment: segment.clone(), base: Offset(number(4)), opened_at_ms: number(5) },
                edit(4, &[&segment_bytes, &[4; 8], &[5; 8]]),
            ),
            (
                Edit::Sealed {
                    segment: segment.clone(),
                    end: Offset(number(1)),
                    logical_bytes: number(2),
                    first_store_time_ms: number(3),
                    last_store_time_ms: number(4),
                    sealed_at_ms: number(5),
                },
                edit(5, &[&segment_bytes, &[1; 8], &[2; 8], &[3; 8], &[4; 8], &[5; 8]]),
            ),
            (
                Edit::Fenced { segment: segment.clone(), end: Offset(number(1)), end_position: Position(number(2)) },
                edit(6, &[&segment_bytes, &[1; 8], &[2; 8]]),
            ),
            (
                Edit::StartOffset { log, start: Offset(number(1)), epoch: Epoch(number(2)) },
                edit(7, &[&log_bytes, &[1; 8], &[2; 8]]),
            ),
            (
                Edit::Released { segment, uid, generation, reason: ReleaseReason::Orphan, hold_until_ms: number(6) },
                edit(8, &[&segment_bytes, &[9; 16], &[7; 4], &[3], &[6; 8]]),
            ),
            (Edit::Gone { uid }, edit(9, &[&[9; 16]])),
        ]
    }

    #[test]
    fn every_field_stands_where_the_format_says() {
        for (edit, bytes) in by_the_table() {
            assert_eq!(encode(&edit), bytes, "{edit:?}");
            assert_eq!(decode(&bytes), Ok(edit));
        }
    }

    #[test]
    fn an_edit_that_is_cut_short_or_goes_on_is_refused_at_every_byte() {
        for (edit, bytes) in by_the_table() {
            for length in 0..bytes.len() {
                assert_eq!(decode(&bytes[..length]), Err(EditError::Short), "{edit:?}, {length} bytes");
            }
            let fields = bytes.len() - EDIT_HEADER_BYTES;
            for length in 0..fields {
                let mut bytes = bytes.clone();
                any::put(&mut bytes, 1, (length as u32).to_le_bytes());
                assert_eq!(decode(&bytes), Err(EditError::Short), "{edit:?}, {length} bytes of fields");
            }
            let mut longer = [bytes.as_slice(), &[0]].concat();
            any::put(&mut longer, 1, (fields as u32 + 1).to_le_bytes());
            assert_eq!(decode(&longer), Err(EditError::Long), "{edit:?}");
        }
    }

    #[test]
    fn fields_that_never_may_be_are_refused_by_name() {
        let live = by_the_table()[3].1.clone();
        let released = by_the_table()[7].1.clone();
        let reason = EDIT_HEADER_BYTES + 12 + 16 + 4;
        let damages = [
            (&live, 8, 0x80, EditError::Field("range")),
            (&live, 16, 0x80, EditError::Field("seq")),
            (&released, reason, 0, EditError::Field("reason")),
            (&released, reason, 4, EditError::Field("reason")),
            (&live, 0, 0, EditError::Kind(0)),
            (&live, 0, 10, EditError::Kind(10)),
            (&live, 4, 1, EditError::Short),
        ];
        for (bytes, at, value, error) in damages {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            assert_eq!(decode(&bytes), Err(error), "byte {at}");
        }
    }

    /// Any edit.
    pub(in super::super) fn any_edit() -> impl Strategy<Value = Edit> {
        let reason =
            prop::sample::select(vec![ReleaseReason::Expired, ReleaseReason::Superseded, ReleaseReason::Orphan]);
        let numbers = (any::number(), any::number(), any::number(), any::number(), any::number());
        (1..=9_u8, any::segment_id(), any::uid(), any::<u32>().prop_map(Generation), reason, numbers).prop_map(
            |(kind, segment, uid, generation, reason, (first, second, third, fourth, fifth))| match kind {
                1 => Edit::Opened { life: Life(first) },
                2 => Edit::LogCreated { log: segment.log },
                3 => Edit::Prepared { segment, uid, generation, size: first, look_ahead: second },
                4 => Edit::Live { segment, base: Offset(first), opened_at_ms: second },
                5 => Edit::Sealed {
                    segment,
                    end: Offset(first),
                    logical_bytes: second,
                    first_store_time_ms: third,
                    last_store_time_ms: fourth,
                    sealed_at_ms: fifth,
                },
                6 => Edit::Fenced { segment, end: Offset(first), end_position: Position(second) },
                7 => Edit::StartOffset { log: segment.log, start: Offset(first), epoch: Epoch(second) },
                8 => Edit::Released { segment, uid, generation, reason, hold_until_ms: first },
                _ => Edit::Gone { uid },
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(edit in any_edit()) {
            prop_assert_eq!(decode(&encode(&edit)), Ok(edit));
        }

        #[test]
        fn any_bytes_are_refused_or_read_back(
            kind in 0..11_u8,
            topic in prop::collection::vec(any::<u8>(), 0..6),
            tail in prop::collection::vec(any::<u8>(), 0..60),
            length in prop::option::of(0..90_u32),
        ) {
            let fields = [&[1, 0, 0, 0, topic.len() as u8, 0][..], &topic, &tail].concat();
            let length = length.unwrap_or(fields.len() as u32);
            let bytes = [&[kind][..], &length.to_le_bytes(), &fields].concat();
            if let Ok(edit) = decode(&bytes) {
                prop_assert_eq!(encode(&edit), &bytes[..EDIT_HEADER_BYTES + length as usize]);
            }
        }
    }
}
