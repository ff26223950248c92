//! The bytes of edits: kind, length, then the fields in the order of FORMAT.md.

use super::edit::{Edit, EditError, ReleaseReason, ScrubAt, ScrubCursor};
use super::field::{Reader, Writer, counted, counted_generation, log_of, segment_of};
use super::policy_edit::PolicyEdit;
use crate::id::{Epoch, Generation, Life, LogId, Offset, SegmentId, Uid};
use strandline_disk::Position;

/// The bytes of an edit in front of its fields: kind and length.
pub const EDIT_HEADER_BYTES: usize = 5;

/// The bytes that say what a file is: uid, generation, size, look-ahead and whether it was written whole.
const FILE_BYTES: usize = 16 + 4 + 8 + 8 + 1;

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
            Edit::Truncated { .. } => 10,
            Edit::Replaced { .. } => 11,
            Edit::Shrunk { .. } => 12,
            Edit::LogDeleted { .. } => 13,
            Edit::LogFenced { .. } => 14,
            Edit::Clean { .. } => 15,
            Edit::Dirty { .. } => 16,
            Edit::SeqUsed { .. } => 17,
            Edit::Policy(edit) => edit.kind(),
            Edit::ClockSure { .. } => 24,
            Edit::SealRestamped { .. } => 25,
            Edit::Scrubbed(_) => 26,
        }
    }

    /// The edit's length in a frame, in bytes.
    #[must_use]
    #[expect(clippy::arithmetic_side_effects, reason = "names are bounded, and a few numbers")]
    pub fn encoded_bytes(&self) -> usize {
        let log = |log: &LogId| 4 + 2 + log.topic.as_bytes().len();
        let segment = |segment: &SegmentId| log(&segment.log) + 4;
        let fields = match self {
            Edit::Opened { .. } | Edit::ClockSure { .. } => 8,
            Edit::LogCreated { log: of } => log(of),
            Edit::Prepared { segment: of, .. } => segment(of) + FILE_BYTES,
            Edit::Live { segment: of, .. } => segment(of) + 8 + 8,
            Edit::Sealed { segment: of, .. } => segment(of) + 5 * 8,
            Edit::Fenced { segment: of, .. } => segment(of) + 8 + 8,
            Edit::StartOffset { log: of, .. } => log(of) + 8 + 8,
            Edit::Released { segment: of, .. } => segment(of) + 16 + 4 + 1 + 8,
            Edit::Gone { .. } => 16,
            Edit::Truncated { log: of, .. } => log(of) + 8 + 8,
            Edit::Replaced { segment: of, .. } => segment(of) + FILE_BYTES + 7 * 8,
            Edit::Shrunk { segment: of, .. } | Edit::SealRestamped { segment: of, .. } => segment(of) + 8,
            Edit::LogDeleted { log: of } | Edit::Dirty { log: of } => log(of),
            Edit::LogFenced { log: of, .. } => log(of) + 1 + 8,
            Edit::Clean { segment: of, .. } => segment(of) + 8 + 8 + 8,
            Edit::SeqUsed { segment: of } => segment(of),
            Edit::Scrubbed(ScrubCursor { at: ScrubAt::Behind(of), .. }) => 8 + 1 + segment(of),
            Edit::Scrubbed(_) => 8 + 1,
            Edit::Policy(edit) => edit.fields_bytes(),
        };
        EDIT_HEADER_BYTES + fields
    }

    /// Writes the edit into room that has exactly its length.
    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        writer.u8(self.kind());
        writer.u32(self.encoded_bytes().saturating_sub(EDIT_HEADER_BYTES) as u32);
        match self {
            Edit::Opened { life } => writer.u64(life.0),
            Edit::ClockSure { wall_ms } => writer.u64(*wall_ms),
            Edit::LogCreated { log } | Edit::LogDeleted { log } | Edit::Dirty { log } => write_log(writer, log),
            Edit::Prepared { segment, uid, generation, size, look_ahead, written } => {
                write_segment(writer, segment);
                write_file(writer, *uid, *generation, *size, *look_ahead, *written);
            }
            Edit::Live { segment, base, opened_at_ms } => {
                write_segment(writer, segment);
                write_numbers(writer, [base.0, *opened_at_ms]);
            }
            Edit::Sealed { segment, end, logical_bytes, first_store_time_ms, last_store_time_ms, sealed_at_ms } => {
                write_segment(writer, segment);
                let times = [*first_store_time_ms, *last_store_time_ms, *sealed_at_ms];
                write_numbers(writer, [end.0, *logical_bytes]);
                write_numbers(writer, times);
            }
            Edit::Fenced { segment, end, end_position } => {
                write_segment(writer, segment);
                write_numbers(writer, [end.0, end_position.0]);
            }
            Edit::StartOffset { log, start: offset, epoch } | Edit::Truncated { log, end: offset, epoch } => {
                write_log(writer, log);
                write_numbers(writer, [offset.0, epoch.0]);
            }
            Edit::Released { segment, uid, generation, reason, hold_until_ms } => {
                write_segment(writer, segment);
                writer.u128(uid.0);
                writer.u32(generation.0);
                writer.u8(reason.number());
                writer.u64(*hold_until_ms);
            }
            Edit::Gone { uid } => writer.u128(uid.0),
            Edit::Replaced { .. } => self.write_replaced(writer),
            Edit::Shrunk { segment, size: number } | Edit::SealRestamped { segment, sealed_at_ms: number } => {
                write_segment(writer, segment);
                writer.u64(*number);
            }
            Edit::LogFenced { log, until } => {
                write_log(writer, log);
                writer.u8(u8::from(until.is_some()));
                writer.u64(until.unwrap_or_default().0);
            }
            Edit::SeqUsed { segment } => write_segment(writer, segment),
            Edit::Scrubbed(cursor) => write_cursor(writer, cursor),
            Edit::Policy(edit) => edit.write_fields(writer),
            Edit::Clean { segment, end, end_position, last_store_time_ms } => {
                write_segment(writer, segment);
                write_numbers(writer, [end.0, end_position.0, *last_store_time_ms]);
            }
        }
    }

    fn write_replaced(&self, writer: &mut Writer<'_>) {
        let Edit::Replaced {
            segment,
            uid,
            generation,
            size,
            look_ahead,
            written,
            base,
            end,
            opened_at_ms,
            logical_bytes,
            first_store_time_ms,
            last_store_time_ms,
            sealed_at_ms,
        } = self
        else {
            return;
        };
        write_segment(writer, segment);
        write_file(writer, *uid, *generation, *size, *look_ahead, *written);
        write_numbers(writer, [base.0, end.0, *opened_at_ms, *logical_bytes]);
        write_numbers(writer, [*first_store_time_ms, *last_store_time_ms, *sealed_at_ms]);
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

fn write_cursor(writer: &mut Writer<'_>, ScrubCursor { begun_ms, at }: &ScrubCursor) {
    writer.u64(*begun_ms);
    match at {
        ScrubAt::Start => writer.u8(0),
        ScrubAt::End => writer.u8(1),
        ScrubAt::Behind(segment) => {
            writer.u8(2);
            write_segment(writer, segment);
        }
    }
}

fn read_cursor(fields: &mut Reader<'_>) -> Result<ScrubCursor, EditError> {
    let begun_ms = read_u64(fields)?;
    let at = match fields.u8().ok_or(EditError::Short)? {
        0 => ScrubAt::Start,
        1 => ScrubAt::End,
        2 => ScrubAt::Behind(read_segment(fields)?),
        _ => return Err(EditError::Field("at")),
    };
    Ok(ScrubCursor { begun_ms, at })
}

fn read_fields(kind: u8, fields: &mut Reader<'_>) -> Result<Edit, EditError> {
    let edit = match kind {
        1 => Edit::Opened { life: Life(counted(read_u64(fields)?).ok_or(EditError::Field("life"))?) },
        2 => Edit::LogCreated { log: read_log(fields)? },
        3 => Edit::Prepared {
            segment: read_segment(fields)?,
            uid: read_uid(fields)?,
            generation: read_generation(fields)?,
            size: read_u64(fields)?,
            look_ahead: read_u64(fields)?,
            written: read_bool(fields, "written")?,
        },
        4 => Edit::Live { segment: read_segment(fields)?, base: read_offset(fields)?, opened_at_ms: read_u64(fields)? },
        5 => Edit::Sealed {
            segment: read_segment(fields)?,
            end: read_offset(fields)?,
            logical_bytes: read_u64(fields)?,
            first_store_time_ms: read_u64(fields)?,
            last_store_time_ms: read_u64(fields)?,
            sealed_at_ms: read_u64(fields)?,
        },
        6 => Edit::Fenced {
            segment: read_segment(fields)?,
            end: read_offset(fields)?,
            end_position: Position(read_u64(fields)?),
        },
        7 => Edit::StartOffset { log: read_log(fields)?, start: read_offset(fields)?, epoch: read_epoch(fields)? },
        8 => Edit::Released {
            segment: read_segment(fields)?,
            uid: read_uid(fields)?,
            generation: read_generation(fields)?,
            reason: ReleaseReason::of(fields.u8().ok_or(EditError::Short)?).ok_or(EditError::Field("reason"))?,
            hold_until_ms: read_u64(fields)?,
        },
        9 => Edit::Gone { uid: read_uid(fields)? },
        10 => Edit::Truncated { log: read_log(fields)?, end: read_offset(fields)?, epoch: read_epoch(fields)? },
        11 => read_replaced(fields)?,
        12 => Edit::Shrunk { segment: read_segment(fields)?, size: read_u64(fields)? },
        13 => Edit::LogDeleted { log: read_log(fields)? },
        14 => Edit::LogFenced { log: read_log(fields)?, until: read_until(fields)? },
        15 => Edit::Clean {
            segment: read_segment(fields)?,
            end: read_offset(fields)?,
            end_position: Position(read_u64(fields)?),
            last_store_time_ms: read_u64(fields)?,
        },
        16 => Edit::Dirty { log: read_log(fields)? },
        17 => Edit::SeqUsed { segment: read_segment(fields)? },
        18..=23 => Edit::Policy(PolicyEdit::read_fields(kind, fields)?),
        24 => Edit::ClockSure { wall_ms: read_u64(fields)? },
        26 => Edit::Scrubbed(read_cursor(fields)?),
        25 => Edit::SealRestamped { segment: read_segment(fields)?, sealed_at_ms: read_u64(fields)? },
        unknown => return Err(EditError::Kind(unknown)),
    };
    Ok(edit)
}

fn read_replaced(fields: &mut Reader<'_>) -> Result<Edit, EditError> {
    Ok(Edit::Replaced {
        segment: read_segment(fields)?,
        uid: read_uid(fields)?,
        generation: read_generation(fields)?,
        size: read_u64(fields)?,
        look_ahead: read_u64(fields)?,
        written: read_bool(fields, "written")?,
        base: read_offset(fields)?,
        end: read_offset(fields)?,
        opened_at_ms: read_u64(fields)?,
        logical_bytes: read_u64(fields)?,
        first_store_time_ms: read_u64(fields)?,
        last_store_time_ms: read_u64(fields)?,
        sealed_at_ms: read_u64(fields)?,
    })
}

/// Where a fence ends. Without one the offset says nothing and is 0.
fn read_until(fields: &mut Reader<'_>) -> Result<Option<Offset>, EditError> {
    let is_fenced = read_bool(fields, "fenced")?;
    match read_offset(fields)? {
        until if is_fenced => Ok(Some(until)),
        Offset(0) => Ok(None),
        _ => Err(EditError::Field("until")),
    }
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

fn write_file(writer: &mut Writer<'_>, uid: Uid, generation: Generation, size: u64, look_ahead: u64, written: bool) {
    writer.u128(uid.0);
    writer.u32(generation.0);
    write_numbers(writer, [size, look_ahead]);
    writer.u8(u8::from(written));
}

fn write_numbers<const N: usize>(writer: &mut Writer<'_>, numbers: [u64; N]) {
    numbers.into_iter().for_each(|number| writer.u64(number));
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

fn read_generation(fields: &mut Reader<'_>) -> Result<Generation, EditError> {
    counted_generation(read_u32(fields)?).ok_or(EditError::Field("generation"))
}

fn read_epoch(fields: &mut Reader<'_>) -> Result<Epoch, EditError> {
    counted(read_u64(fields)?).map(Epoch).ok_or(EditError::Field("epoch"))
}

fn read_u32(fields: &mut Reader<'_>) -> Result<u32, EditError> {
    fields.u32().ok_or(EditError::Short)
}

fn read_u64(fields: &mut Reader<'_>) -> Result<u64, EditError> {
    fields.u64().ok_or(EditError::Short)
}

fn read_offset(fields: &mut Reader<'_>) -> Result<Offset, EditError> {
    read_u64(fields).map(Offset)
}

fn read_bool(fields: &mut Reader<'_>, name: &'static str) -> Result<bool, EditError> {
    match fields.u8().ok_or(EditError::Short)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(EditError::Field(name)),
    }
}

fn read_uid(fields: &mut Reader<'_>) -> Result<Uid, EditError> {
    fields.u128().map(Uid).ok_or(EditError::Short)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::any;
    use super::super::policy_edit::tests::{any_policy_edit, by_the_table as policies_by_the_table};
    use super::*;
    use crate::id::GENERATION_MAX;
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
                Edit::Prepared {
                    segment: segment.clone(),
                    uid,
                    generation,
                    size: number(2),
                    look_ahead: number(3),
                    written: true,
                },
                edit(3, &[&segment_bytes, &[9; 16], &[7; 4], &[2; 8], &[3; 8], &[1]]),
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
                Edit::StartOffset { log: log.clone(), start: Offset(number(1)), epoch: Epoch(number(2)) },
                edit(7, &[&log_bytes, &[1; 8], &[2; 8]]),
            ),
            (
                Edit::Released {
                    segment: segment.clone(),
                    uid,
                    generation,
                    reason: ReleaseReason::Orphan,
                    hold_until_ms: number(6),
                },
                edit(8, &[&segment_bytes, &[9; 16], &[7; 4], &[3], &[6; 8]]),
            ),
            (Edit::Gone { uid }, edit(9, &[&[9; 16]])),
            (
                Edit::Truncated { log: log.clone(), end: Offset(number(1)), epoch: Epoch(number(2)) },
                edit(10, &[&log_bytes, &[1; 8], &[2; 8]]),
            ),
            (
                replaced(segment.clone(), uid, generation, number),
                edit(
                    11,
                    &[
                        &segment_bytes,
                        &[9; 16],
                        &[7; 4],
                        &[1; 8],
                        &[2; 8],
                        &[0],
                        &[3; 8],
                        &[4; 8],
                        &[5; 8],
                        &[6; 8],
                        &[7; 8],
                        &[8; 8],
                        &[9; 8],
                    ],
                ),
            ),
            (Edit::Shrunk { segment: segment.clone(), size: number(1) }, edit(12, &[&segment_bytes, &[1; 8]])),
            (Edit::LogDeleted { log: log.clone() }, edit(13, &[&log_bytes])),
            (
                Edit::LogFenced { log: log.clone(), until: Some(Offset(number(1))) },
                edit(14, &[&log_bytes, &[1], &[1; 8]]),
            ),
            (Edit::LogFenced { log: log.clone(), until: None }, edit(14, &[&log_bytes, &[0], &[0; 8]])),
            (
                Edit::Clean {
                    segment: segment.clone(),
                    end: Offset(number(1)),
                    end_position: Position(number(2)),
                    last_store_time_ms: number(3),
                },
                edit(15, &[&segment_bytes, &[1; 8], &[2; 8], &[3; 8]]),
            ),
            (Edit::Dirty { log }, edit(16, &[&log_bytes])),
            (Edit::SeqUsed { segment: segment.clone() }, edit(17, &[&segment_bytes])),
            (Edit::ClockSure { wall_ms: number(1) }, edit(24, &[&[1; 8]])),
            (Edit::Scrubbed(scrubbed(number(1), ScrubAt::Start)), edit(26, &[&[1; 8], &[0]])),
            (Edit::Scrubbed(scrubbed(number(1), ScrubAt::End)), edit(26, &[&[1; 8], &[1]])),
            (
                Edit::Scrubbed(scrubbed(number(1), ScrubAt::Behind(segment.clone()))),
                edit(26, &[&[1; 8], &[2], &segment_bytes]),
            ),
            (Edit::SealRestamped { segment, sealed_at_ms: number(1) }, edit(25, &[&segment_bytes, &[1; 8]])),
        ]
    }

    fn scrubbed(begun_ms: u64, at: ScrubAt) -> ScrubCursor {
        ScrubCursor { begun_ms, at }
    }

    /// A replacement whose numbers are drawn in the order of the table.
    fn replaced(segment: SegmentId, uid: Uid, generation: Generation, number: impl Fn(u8) -> u64) -> Edit {
        Edit::Replaced {
            segment,
            uid,
            generation,
            size: number(1),
            look_ahead: number(2),
            written: false,
            base: Offset(number(3)),
            end: Offset(number(4)),
            opened_at_ms: number(5),
            logical_bytes: number(6),
            first_store_time_ms: number(7),
            last_store_time_ms: number(8),
            sealed_at_ms: number(9),
        }
    }

    #[test]
    fn every_field_stands_where_the_format_says() {
        for (edit, bytes) in by_the_table().into_iter().chain(policies_by_the_table()) {
            assert_eq!(encode(&edit), bytes, "{edit:?}");
            assert_eq!(decode(&bytes), Ok(edit));
        }
    }

    #[test]
    fn an_edit_that_is_cut_short_or_goes_on_is_refused_at_every_byte() {
        for (edit, bytes) in by_the_table().into_iter().chain(policies_by_the_table()) {
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

    /// A manifest that says otherwise is damaged: the store would count on from there, and meet the end of the numbers.
    #[test]
    fn a_number_that_has_no_next_is_no_number() {
        let segment = segment_of(1, 2, b"ab").expect("a valid id");
        let log = segment.log.clone();
        let [most, more] = [u64::MAX / 2, u64::MAX / 2 + 1];
        let opened = |life| Edit::Opened { life: Life(life) };
        let started = |epoch| Edit::StartOffset { log: log.clone(), start: Offset(0), epoch: Epoch(epoch) };
        let truncated = |epoch| Edit::Truncated { log: log.clone(), end: Offset(0), epoch: Epoch(epoch) };
        let of_file = |generation| Edit::released(&segment, Uid(1), Generation(generation), ReleaseReason::Orphan);
        let edits = [opened(most), started(most), truncated(most), of_file(GENERATION_MAX)];
        for edit in edits {
            assert_eq!(decode(&encode(&edit)), Ok(edit));
        }
        let damages = [
            (opened(more), "life"),
            (opened(u64::MAX), "life"),
            (started(more), "epoch"),
            (truncated(u64::MAX), "epoch"),
            (of_file(GENERATION_MAX + 1), "generation"),
            (of_file(u32::MAX), "generation"),
        ];
        for (edit, field) in damages {
            assert_eq!(decode(&encode(&edit)), Err(EditError::Field(field)), "{edit:?}");
        }
    }

    #[test]
    fn fields_that_never_may_be_are_refused_by_name() {
        let prepared = by_the_table()[2].1.clone();
        let live = by_the_table()[3].1.clone();
        let fenced = by_the_table()[13].1.clone();
        let released = by_the_table()[7].1.clone();
        let scrubbed = encode(&Edit::Scrubbed(scrubbed(1, ScrubAt::End)));
        let reason = EDIT_HEADER_BYTES + 12 + 16 + 4;
        let damages = [
            (&live, 8, 0x80, EditError::Field("range")),
            (&live, 16, 0x80, EditError::Field("seq")),
            (&released, reason, 0, EditError::Field("reason")),
            (&released, reason, 4, EditError::Field("reason")),
            (&live, 0, 0, EditError::Kind(0)),
            (&live, 0, 27, EditError::Kind(27)),
            (&scrubbed, EDIT_HEADER_BYTES + 8, 3, EditError::Field("at")),
            (&prepared, prepared.len() - 1, 2, EditError::Field("written")),
            (&fenced, EDIT_HEADER_BYTES + 8, 2, EditError::Field("fenced")),
            (&fenced, EDIT_HEADER_BYTES + 8, 0, EditError::Field("until")),
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
        let of_logs = (
            1..=20_u8,
            any::segment_id(),
            any::uid(),
            any::<u32>().prop_map(|number| Generation(number / 2)),
            reason,
            numbers,
        );
        let of_logs =
            of_logs.prop_map(|(kind, segment, uid, generation, reason, (first, second, third, fourth, fifth))| {
                match kind {
                    1 => Edit::Opened { life: Life(first / 2) },
                    2 => Edit::LogCreated { log: segment.log },
                    3 => Edit::Prepared {
                        segment,
                        uid,
                        generation,
                        size: first,
                        look_ahead: second,
                        written: third % 2 == 0,
                    },
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
                    7 => Edit::StartOffset { log: segment.log, start: Offset(first), epoch: Epoch(second / 2) },
                    8 => Edit::Released { segment, uid, generation, reason, hold_until_ms: first },
                    9 => Edit::Gone { uid },
                    10 => Edit::Truncated { log: segment.log, end: Offset(first), epoch: Epoch(second / 2) },
                    11 => replaced(segment, uid, generation, |which| {
                        if which % 2 == 0 { first ^ u64::from(which) } else { second }
                    }),
                    12 => Edit::Shrunk { segment, size: first },
                    13 => Edit::LogDeleted { log: segment.log },
                    14 => Edit::LogFenced { log: segment.log, until: (second % 2 == 0).then_some(Offset(first)) },
                    15 => Edit::Clean {
                        segment,
                        end: Offset(first),
                        end_position: Position(second),
                        last_store_time_ms: third,
                    },
                    16 => Edit::Dirty { log: segment.log },
                    17 => Edit::SeqUsed { segment },
                    18 => Edit::ClockSure { wall_ms: first },
                    20 => Edit::Scrubbed(scrubbed(
                        first,
                        match second % 3 {
                            0 => ScrubAt::Start,
                            1 => ScrubAt::End,
                            _ => ScrubAt::Behind(segment),
                        },
                    )),
                    _ => Edit::SealRestamped { segment, sealed_at_ms: first },
                }
            });
        prop_oneof![3 => of_logs, 1 => any_policy_edit().prop_map(Edit::Policy)]
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(edit in any_edit()) {
            prop_assert_eq!(decode(&encode(&edit)), Ok(edit));
        }

        #[test]
        fn any_bytes_are_refused_or_read_back(
            kind in 0..28_u8,
            topic in prop::collection::vec(any::<u8>(), 0..6),
            tail in prop::collection::vec(any::<u8>(), 0..110),
            length in prop::option::of(0..140_u32),
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
