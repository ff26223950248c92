//! What the tests of the format share: values drawn at random, and ways to damage bytes.

use super::batch::{BatchHeader, Codec, Flags, PAD_BYTES_MAX, PAYLOAD_BYTES_MAX};
use super::checksum::crc32c;
use crate::id::{Epoch, Life, LogId, Offset, RangeNumber, SegmentId, Seq, Topic, Uid};
use proptest::prelude::*;
use strandline_disk::Position;

/// Calls `check` with every way to flip one of the bits of `bytes` in `range`.
pub(super) fn for_every_flip(bytes: &[u8], range: std::ops::Range<usize>, mut check: impl FnMut(usize, &[u8])) {
    let mut flipped = bytes.to_vec();
    for bit in range.start * 8..range.end * 8 {
        flipped[bit / 8] ^= 1 << (bit % 8);
        check(bit, &flipped);
        flipped[bit / 8] ^= 1 << (bit % 8);
    }
}

/// Puts `field` at byte `at`: the tests lay structures out by the tables of FORMAT.md, not by the code under test.
pub(super) fn put(bytes: &mut [u8], at: usize, field: impl AsRef<[u8]>) {
    bytes[at..at + field.as_ref().len()].copy_from_slice(field.as_ref());
}

/// Bytes in which no codec finds anything to save.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Makes the checksum of a block right again.
pub(super) fn sign_block(block: &mut [u8]) {
    let checksum = crc32c(&block[12..4096]);
    put(block, 8, checksum.to_le_bytes());
}

pub(super) fn uid() -> impl Strategy<Value = Uid> {
    any::<u128>().prop_map(Uid)
}

/// Numbers at the edges as often as in between.
pub(super) fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), 0..1000_u64, any::<u64>()]
}

pub(super) fn time() -> impl Strategy<Value = Option<i64>> {
    prop_oneof![
        Just(None),
        Just(Some(i64::MIN + 1)),
        Just(Some(-1)),
        any::<i64>().prop_map(|time| (time != i64::MIN).then_some(time))
    ]
}

pub(super) fn log_id() -> impl Strategy<Value = LogId> {
    let topic =
        prop_oneof!["[A-Za-z0-9._-]{1,231}".prop_map(String::into_bytes), prop::collection::vec(any::<u8>(), 0..=171)];
    (topic, 0..=i32::MAX as u32).prop_map(|(topic, range)| LogId {
        topic: Topic::new(topic).expect("within the limits"),
        range: RangeNumber::new(range).expect("within the limits"),
    })
}

pub(super) fn segment_id() -> impl Strategy<Value = SegmentId> {
    (log_id(), 0..=i32::MAX as u32)
        .prop_map(|(log, seq)| SegmentId { log, seq: Seq::new(seq).expect("within the limits") })
}

/// How long and how packed a payload is, and whose layout it has.
#[derive(Clone, Copy, Debug)]
struct Shape {
    payload_bytes: u32,
    payload_crc: u32,
    records: u32,
    codec: Codec,
    flags: Flags,
    uncompressed_bytes: u32,
}

/// Marks, our own batches and foreign ones.
fn shape() -> impl Strategy<Value = Shape> {
    let mark = prop_oneof![Just(0), 1..=PAD_BYTES_MAX].prop_map(|bytes| Shape {
        payload_bytes: bytes,
        payload_crc: crc32c(&vec![0; bytes as usize]),
        records: 0,
        codec: Codec::None,
        flags: Flags::default(),
        uncompressed_bytes: bytes,
    });
    let codec = prop::sample::select(vec![Codec::None, Codec::Lz4, Codec::Zstd, Codec::Gzip, Codec::Snappy]);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let lengths = (1..=u32::MAX, 1..=PAYLOAD_BYTES_MAX, any::<bool>());
    let batch = (lengths, any::<u32>(), 1..=u32::MAX, codec, flags).prop_map(
        |((payload_bytes, unpacked, is_known), payload_crc, records, codec, (has_tombstones, has_keyless, foreign))| {
            let is_foreign = foreign || !codec.is_ours();
            let flags = Flags { has_tombstones, has_keyless, is_foreign };
            let uncompressed_bytes = match codec {
                _ if is_foreign && !is_known => 0,
                Codec::None => payload_bytes,
                _ => unpacked,
            };
            Shape { payload_bytes, payload_crc, records, codec, flags, uncompressed_bytes }
        },
    );
    prop_oneof![1 => mark, 3 => batch]
}

/// Any header that may be written; the checksum of a payload is made up.
pub(super) fn batch_header() -> impl Strategy<Value = BatchHeader> {
    let numbers = (number(), number(), number(), number(), number(), number());
    (numbers, shape(), time(), any::<u64>(), any::<[u8; 32]>()).prop_map(
        |((first, store_time_ms, durable_to, tombstone_horizon_ms, epoch, life), shape, time, gap, host)| {
            let Shape { payload_bytes, payload_crc, records, codec, flags, uncompressed_bytes } = shape;
            let first = first.min(u64::MAX - u64::from(records));
            let gap = if records == 0 { 0 } else { gap % (u64::MAX - u64::from(records) - first).max(1) };
            BatchHeader {
                payload_bytes,
                payload_crc,
                first: Offset(first),
                end: Offset(first + u64::from(records) + gap),
                store_time_ms,
                client_time_max_ms: time,
                durable_to: Offset(durable_to),
                tombstone_horizon_ms,
                epoch: Epoch(epoch / 2),
                life: Life(life / 2),
                records,
                codec,
                flags,
                host,
                uncompressed_bytes,
            }
        },
    )
}

/// One batch of a file under test; a mark when its payload is all zero.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) payload: Vec<u8>,
}

/// The bytes of these batches, one after the other from `start` on, and where each of them stands.
pub(super) fn file_of(batches: &[Wanted], uid: Uid, start: Position) -> (Vec<u8>, Vec<(Position, BatchHeader)>) {
    let (mut bytes, mut placed, mut next) = (Vec::new(), Vec::new(), Offset(0));
    for Wanted { payload } in batches {
        let records = if payload.iter().all(|&byte| byte == 0) { 0 } else { payload.len().min(3) as u32 };
        let end = next.plus(u64::from(records));
        let payload_bytes = payload.len() as u32;
        let header = BatchHeader {
            payload_bytes,
            payload_crc: crc32c(payload),
            first: next,
            end,
            records,
            uncompressed_bytes: payload_bytes,
            ..BatchHeader::default()
        };
        let at = start.plus(bytes.len());
        bytes.extend_from_slice(&header.encode(uid, at));
        bytes.extend_from_slice(payload);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        placed.push((at, header));
        next = end;
    }
    (bytes, placed)
}

pub(super) fn wanted() -> impl Strategy<Value = Vec<Wanted>> {
    let length = prop_oneof![Just(0), 1..20_usize, 100..300_usize];
    let payload = (length, 0..4_u8).prop_flat_map(|(length, kind)| {
        // Every fourth is a mark that pads.
        prop::collection::vec(if kind == 0 { Just(0).boxed() } else { any::<u8>().boxed() }, length)
    });
    prop::collection::vec(payload.prop_map(|payload| Wanted { payload }), 0..8)
}
