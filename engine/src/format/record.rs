//! Records: what stands in a payload of ours once it is unpacked.
//!
//! A record is checked as a whole before any part of it is handed out. An absent key or value is never taken for an empty one.

use super::field::Reader;
use crate::id::Offset;

/// The bytes of a record in front of its key.
pub const RECORD_HEADER_BYTES: usize = 28;

/// The length that says that a key or a value is absent.
const ABSENT: u32 = u32::MAX;

/// A record to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record<'a> {
    /// The key; absent is not empty.
    pub key: Option<&'a [u8]>,
    /// The value; absent is not empty: a key without value is a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers, kept in this order.
    pub headers: &'a [Header<'a>],
    /// The client's timestamp, ms. The smallest number is not one: it stands for none on disk.
    pub timestamp_ms: Option<i64>,
}

/// A named value of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header<'a> {
    /// The name; several headers may have the same one.
    pub name: &'a [u8],
    /// The value; absent is not empty.
    pub value: Option<&'a [u8]>,
}

/// A record as it was read.
#[derive(Clone, Copy, Debug)]
pub struct StoredRecord<'a> {
    /// The record's offset in its log.
    pub offset: Offset,
    /// The client's timestamp, ms.
    pub timestamp_ms: Option<i64>,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value.
    pub value: Option<&'a [u8]>,
    headers: Headers<'a>,
}

impl<'a> StoredRecord<'a> {
    /// The headers, in their order.
    #[must_use]
    pub fn headers(&self) -> Headers<'a> {
        self.headers
    }
}

/// Why a payload whose checksum is right is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The payload's layout is the host's own.
    #[error("the payload (codec {0}) has a layout of the host's own, out of which the store reads no records")]
    Foreign(&'static str),
    /// The batch header states a length that no payload may ever have had.
    #[error("the batch header says that the payload unpacks to {stated} bytes; at most {limit} are possible")]
    Stated {
        /// What the header says.
        stated: u32,
        /// The most that is possible.
        limit: u32,
    },
    /// The payload does not unpack, or not to the stated length.
    #[error("the payload does not unpack with {codec} to exactly the {stated} bytes that the batch header says")]
    Unpack {
        /// The codec.
        codec: &'static str,
        /// What the header says.
        stated: u32,
    },
    /// A field of a record holds what it never may.
    #[error("record {index} of the batch: its {field} holds what it never may")]
    Field {
        /// Which record of the batch, from 0.
        index: u32,
        /// The field.
        field: &'static str,
    },
    /// The payload ends before all records, or goes on behind them.
    #[error("the batch says that it holds {expected} records; its payload ends with record {found}")]
    Count {
        /// How many the batch header says.
        expected: u32,
        /// How many stand in the payload.
        found: u32,
    },
}

/// The length of `record` in a payload.
#[must_use]
#[expect(clippy::arithmetic_side_effects, reason = "lengths of what lies in memory")]
pub fn encoded_bytes(record: &Record<'_>) -> u64 {
    let length = |bytes: Option<&[u8]>| bytes.map_or(0, |bytes| bytes.len() as u64);
    let headers = record.headers.iter().map(|header| 8 + header.name.len() as u64 + length(header.value));
    RECORD_HEADER_BYTES as u64 + length(record.key) + length(record.value) + headers.sum::<u64>()
}

/// Writes `record` behind what `payload` holds, with an offset `delta` after the batch's first one.
///
/// The caller has checked that the record is shorter than 4 GiB ([`encoded_bytes`]), so that no length can pass for an absent one.
pub fn encode(payload: &mut Vec<u8>, delta: u32, record: &Record<'_>) {
    let bytes = encoded_bytes(record);
    debug_assert!(bytes < u64::from(ABSENT), "a record of {bytes} bytes");
    payload.reserve(bytes as usize);
    payload.extend_from_slice(&(bytes as u32).to_le_bytes());
    payload.extend_from_slice(&delta.to_le_bytes());
    payload.extend_from_slice(&record.timestamp_ms.unwrap_or(i64::MIN).to_le_bytes());
    payload.extend_from_slice(&length_or_absent(record.key).to_le_bytes());
    payload.extend_from_slice(&length_or_absent(record.value).to_le_bytes());
    payload.extend_from_slice(&(record.headers.len() as u32).to_le_bytes());
    payload.extend_from_slice(record.key.unwrap_or_default());
    payload.extend_from_slice(record.value.unwrap_or_default());
    for header in record.headers {
        payload.extend_from_slice(&(header.name.len() as u32).to_le_bytes());
        payload.extend_from_slice(&length_or_absent(header.value).to_le_bytes());
        payload.extend_from_slice(header.name);
        payload.extend_from_slice(header.value.unwrap_or_default());
    }
}

fn length_or_absent(bytes: Option<&[u8]>) -> u32 {
    bytes.map_or(ABSENT, |bytes| bytes.len() as u32)
}

/// The records of a payload, in order. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: Reader<'a>,
    first: Offset,
    span: u64,
    expected: u32,
    found: u32,
    delta_min: u64,
    failed: Option<DecodeError>,
    is_over: bool,
}

impl<'a> Records<'a> {
    /// Reads `expected` records, whose offsets lie from `first` to `end`, exclusive, out of an uncompressed payload.
    #[must_use]
    pub fn new(payload: &'a [u8], first: Offset, end: Offset, expected: u32) -> Records<'a> {
        let span = end.since(first);
        Records {
            rest: Reader::new(payload),
            first,
            span,
            expected,
            found: 0,
            delta_min: 0,
            failed: None,
            is_over: false,
        }
    }

    /// Reads nothing: the only answer is `error`.
    #[must_use]
    pub fn refused(error: DecodeError) -> Records<'a> {
        Records { failed: Some(error), ..Records::new(&[], Offset(0), Offset(0), 0) }
    }

    fn read(&mut self) -> Result<StoredRecord<'a>, &'static str> {
        let length = self.rest.length().ok_or("length")?;
        let body = length.checked_sub(4).and_then(|body| self.rest.bytes(body)).ok_or("length")?;
        let mut body = Reader::new(body);
        let delta = u64::from(body.u32().ok_or("length")?);
        if delta < self.delta_min || delta >= self.span {
            return Err("offset");
        }
        let timestamp_ms = body.time().ok_or("length")?;
        let key_length = body.u32().ok_or("length")?;
        let value_length = body.u32().ok_or("length")?;
        let count = body.u32().ok_or("length")?;
        let key = read_optional(&mut body, key_length).ok_or("key length")?;
        let value = read_optional(&mut body, value_length).ok_or("value length")?;
        let headers = Headers { rest: body, left: count };
        headers.check()?;
        self.delta_min = delta.saturating_add(1);
        Ok(StoredRecord { offset: self.first.plus(delta), timestamp_ms, key, value, headers })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<StoredRecord<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        if let Some(error) = self.failed.take() {
            self.is_over = true;
            return Some(Err(error));
        }
        let (is_last, is_empty) = (self.found == self.expected, self.rest.rest().is_empty());
        if is_last || is_empty {
            self.is_over = true;
            let count = DecodeError::Count { expected: self.expected, found: self.found };
            return if is_last && is_empty { None } else { Some(Err(count)) };
        }
        let index = self.found;
        let record = self.read().map_err(|field| DecodeError::Field { index, field });
        self.is_over = record.is_err();
        self.found = index.saturating_add(1);
        Some(record)
    }
}

impl std::iter::FusedIterator for Records<'_> {}

/// The headers of a record, in order.
#[derive(Clone, Copy, Debug)]
pub struct Headers<'a> {
    rest: Reader<'a>,
    left: u32,
}

impl<'a> Headers<'a> {
    /// Walks over all headers once, so that handing them out later cannot fail.
    fn check(mut self) -> Result<(), &'static str> {
        while let Some(left) = self.left.checked_sub(1) {
            self.read().ok_or("headers")?;
            self.left = left;
        }
        if self.rest.rest().is_empty() { Ok(()) } else { Err("headers") }
    }

    fn read(&mut self) -> Option<Header<'a>> {
        let name_length = self.rest.length()?;
        let value_length = self.rest.u32()?;
        let name = self.rest.bytes(name_length)?;
        Some(Header { name, value: read_optional(&mut self.rest, value_length)? })
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.left = self.left.checked_sub(1)?;
        self.read()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Headers<'_> {}

/// Bytes of this length, or nothing when they run out; an absent field takes none.
fn read_optional<'a>(reader: &mut Reader<'a>, length: u32) -> Option<Option<&'a [u8]>> {
    if length == ABSENT { Some(None) } else { reader.bytes(usize::try_from(length).ok()?).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::super::any::{self, for_every_flip, put};
    use super::*;
    use proptest::prelude::*;

    /// A record that owns its bytes, written or read.
    #[derive(Clone, Debug, PartialEq)]
    struct Owned {
        key: Option<Vec<u8>>,
        value: Option<Vec<u8>>,
        headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
        timestamp_ms: Option<i64>,
    }

    impl Owned {
        fn encode(&self, payload: &mut Vec<u8>, delta: u32) {
            let headers = self.headers.iter().map(|(name, value)| Header { name, value: value.as_deref() });
            let headers: Vec<_> = headers.collect();
            let (key, value) = (self.key.as_deref(), self.value.as_deref());
            let record = Record { key, value, headers: &headers, timestamp_ms: self.timestamp_ms };
            let before = payload.len();
            encode(payload, delta, &record);
            assert_eq!((payload.len() - before) as u64, encoded_bytes(&record));
        }

        fn read(record: &StoredRecord<'_>) -> Owned {
            let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
            assert_eq!(record.headers().len(), record.headers().count());
            Owned {
                key: owned(record.key),
                value: owned(record.value),
                headers: record.headers().map(|header| (header.name.to_vec(), owned(header.value))).collect(),
                timestamp_ms: record.timestamp_ms,
            }
        }
    }

    fn example() -> Record<'static> {
        const HEADERS: &[Header<'_>] = &[Header { name: b"n", value: Some(b"xyz") }, Header { name: b"", value: None }];
        Record { key: Some(b"k1"), value: Some(b""), headers: HEADERS, timestamp_ms: Some(-2) }
    }

    /// The example, laid out by the table of FORMAT.md.
    fn example_by_the_table() -> Vec<u8> {
        let mut bytes = vec![0; 50];
        put(&mut bytes, 0, 50_u32.to_le_bytes());
        put(&mut bytes, 4, 7_u32.to_le_bytes());
        put(&mut bytes, 8, (-2_i64).to_le_bytes());
        put(&mut bytes, 16, 2_u32.to_le_bytes());
        put(&mut bytes, 20, 0_u32.to_le_bytes());
        put(&mut bytes, 24, 2_u32.to_le_bytes());
        put(&mut bytes, 28, b"k1");
        put(&mut bytes, 30, 1_u32.to_le_bytes());
        put(&mut bytes, 34, 3_u32.to_le_bytes());
        put(&mut bytes, 38, b"nxyz");
        put(&mut bytes, 42, 0_u32.to_le_bytes());
        put(&mut bytes, 46, u32::MAX.to_le_bytes());
        bytes
    }

    fn records(payload: &[u8], expected: u32) -> Records<'_> {
        Records::new(payload, Offset(100), Offset(110), expected)
    }

    #[test]
    fn every_field_stands_where_the_format_says() {
        let mut payload = Vec::new();
        encode(&mut payload, 7, &example());
        assert_eq!(payload, example_by_the_table());

        let record = records(&payload, 1).next().expect("one record").expect("a good record");
        assert_eq!(record.offset, Offset(107));
        assert_eq!((record.key, record.value, record.timestamp_ms), (Some(&b"k1"[..]), Some(&b""[..]), Some(-2)));
        assert_eq!(record.headers().collect::<Vec<_>>(), example().headers);
    }

    #[test]
    fn absent_and_empty_are_kept_apart() {
        let mut payload = Vec::new();
        encode(&mut payload, 0, &Record::default());
        encode(&mut payload, 1, &Record { key: Some(b""), value: Some(b""), ..Record::default() });
        let read = records(&payload, 2).map(|record| record.map(|record| (record.key, record.value)));
        assert_eq!(read.collect::<Vec<_>>(), [Ok((None, None)), Ok((Some(&b""[..]), Some(&b""[..])))]);
    }

    #[test]
    fn a_payload_that_is_cut_short_or_goes_on_is_an_error_at_every_byte() {
        let payload = [example_by_the_table(), {
            let mut second = example_by_the_table();
            put(&mut second, 4, [9]);
            second
        }]
        .concat();
        assert!(records(&payload, 2).all(|record| record.is_ok()));
        for length in 0..payload.len() {
            let read: Vec<_> = records(&payload[..length], 2).collect();
            assert!(read.last().expect("an answer").is_err(), "{length} bytes");
            assert!(read.len() <= 2);
        }
        let count = |expected, found| DecodeError::Count { expected, found };
        assert_eq!(records(&payload, 3).last().expect("an answer").expect_err("too few"), count(3, 2));
        assert_eq!(records(&payload, 1).last().expect("an answer").expect_err("too many"), count(1, 1));
        assert_eq!(records(&[], 0).count(), 0);
    }

    #[test]
    fn fields_that_never_may_be_are_refused_by_name() {
        let damages = [
            ("length", 0, 0),
            ("length", 0, 3),
            ("length", 0, 27),
            ("length", 0, 51),
            ("length", 0, u32::MAX),
            ("offset", 4, 10),
            ("offset", 4, u32::MAX),
            ("key length", 16, 23),
            ("key length", 16, u32::MAX - 1),
            ("value length", 20, 21),
            ("headers", 24, 1),
            ("headers", 24, 3),
            ("headers", 24, u32::MAX),
            ("headers", 30, 2),
            ("headers", 30, u32::MAX),
            ("headers", 34, u32::MAX - 1),
            ("headers", 46, 0xffff),
            ("headers", 0, 49),
        ];
        for (field, at, value) in damages {
            let mut payload = example_by_the_table();
            put(&mut payload, at, value.to_le_bytes());
            let refused = records(&payload, 1).next().expect("an answer").expect_err("a bad field");
            assert_eq!(refused, DecodeError::Field { index: 0, field }, "byte {at}, {value}");
        }
    }

    #[test]
    fn offsets_only_grow() {
        let payload = example_by_the_table().repeat(2);
        let refused = records(&payload, 2).last().expect("an answer").expect_err("the same offset twice");
        assert_eq!(refused, DecodeError::Field { index: 1, field: "offset" });
    }

    #[test]
    fn a_payload_that_is_not_read_answers_once() {
        let error = DecodeError::Foreign("zstd");
        let read: Vec<_> = Records::refused(error).map(|record| record.map(|_| ())).collect();
        assert_eq!(read, [Err(error)]);
    }

    #[test]
    fn no_flipped_bit_is_read_out_of_bounds() {
        for_every_flip(&example_by_the_table(), 0..50, |_, payload| {
            assert!(records(payload, 1).count() <= 2);
        });
    }

    fn owned() -> impl Strategy<Value = Owned> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..40);
        let optional = move || prop::option::of(bytes());
        let headers = prop::collection::vec((bytes(), optional()), 0..4);
        (optional(), optional(), headers, any::time()).prop_map(|(key, value, headers, timestamp_ms)| Owned {
            key,
            value,
            headers,
            timestamp_ms,
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(wanted in prop::collection::vec((owned(), 1..50_u32), 0..10), first in 0..1_000_000_u64) {
            let (mut payload, mut next, mut offsets) = (Vec::new(), 0, Vec::new());
            for (record, gap) in &wanted {
                record.encode(&mut payload, next + gap - 1);
                offsets.push(Offset(first + u64::from(next + gap - 1)));
                next += gap;
            }
            let end = Offset(first + u64::from(next));
            let read: Result<Vec<_>, _> = Records::new(&payload, Offset(first), end, wanted.len() as u32).collect();
            let read = read.expect("good records");
            prop_assert_eq!(read.iter().map(|record| record.offset).collect::<Vec<_>>(), offsets);
            let records: Vec<_> = wanted.into_iter().map(|(record, _)| record).collect();
            prop_assert_eq!(read.iter().map(Owned::read).collect::<Vec<_>>(), records);
        }

        #[test]
        fn any_bytes_are_read_without_panic(payload in prop::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..200), length in any::<u8>()) {
            let mut payload = payload;
            if payload.len() >= 4 {
                put(&mut payload, 0, u32::from(length).to_le_bytes());
            }
            for record in Records::new(&payload, Offset(u64::MAX - 5), Offset(u64::MAX), 7).flatten() {
                let _ = record.headers().count();
            }
        }
    }
}
