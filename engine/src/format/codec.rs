//! Codecs: how a payload is packed, by us or by a host, and how far unpacking may go.
//!
//! What a header says about the length of the unpacked bytes bounds what is allocated for them, and has to be exactly right.

use super::batch::PAYLOAD_BYTES_MAX;
use super::record::DecodeError;
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};
use std::cell::RefCell;
use zstd::bulk::{Compressor, Decompressor};

/// The level at which we write zstd: its own default.
const ZSTD_LEVEL: i32 = 3;

/// The most bytes of a thread's buffer for packing that are kept from batch to batch.
const ROOM_BYTES_KEPT: usize = 4 << 20;

/// How a payload is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Not at all.
    #[default]
    None,
    /// One block of the LZ4 block format.
    Lz4,
    /// One Zstandard frame.
    Zstd,
    /// Gzip: carried for hosts, never written by us.
    Gzip,
    /// Snappy: carried for hosts, never written by us.
    Snappy,
}

impl Codec {
    pub(super) fn number(self) -> u8 {
        match self {
            Codec::None => 0,
            Codec::Lz4 => 1,
            Codec::Zstd => 2,
            Codec::Gzip => 3,
            Codec::Snappy => 4,
        }
    }

    pub(super) fn of(number: u8) -> Option<Codec> {
        [Codec::None, Codec::Lz4, Codec::Zstd, Codec::Gzip, Codec::Snappy]
            .into_iter()
            .find(|codec| codec.number() == number)
    }

    /// The codec's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
        }
    }

    /// Whether our writer writes it and our reader unpacks it; the others are only carried.
    #[must_use]
    pub fn is_ours(self) -> bool {
        matches!(self, Codec::None | Codec::Lz4 | Codec::Zstd)
    }
}

impl std::fmt::Display for Codec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What a thread needs for packing, kept from batch to batch: making it costs more than packing a small batch.
struct Packing {
    room: Vec<u8>,
    lz4: CompressTable,
    zstd: Option<Compressor<'static>>,
}

thread_local! {
    static PACKING: RefCell<Packing> =
        RefCell::new(Packing { room: Vec::new(), lz4: CompressTable::default(), zstd: None });
    static UNPACKING: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Packs `payload` in place, when that makes it smaller; says how it is packed now. A codec that is not ours leaves it as it is.
pub(crate) fn pack(codec: Codec, payload: &mut Vec<u8>) -> Codec {
    PACKING.with_borrow_mut(|packing| {
        let packed = match codec {
            Codec::Lz4 => packing.lz4(payload),
            Codec::Zstd => packing.zstd(payload),
            Codec::None | Codec::Gzip | Codec::Snappy => None,
        };
        let smaller = packed.and_then(|length| packing.room.get(..length)).filter(|it| it.len() < payload.len());
        let codec = match smaller {
            Some(bytes) => {
                // Copied back, so that the caller's buffer stays the caller's, with its room.
                payload.clear();
                payload.extend_from_slice(bytes);
                codec
            }
            None => Codec::None,
        };
        if packing.room.len() > ROOM_BYTES_KEPT {
            packing.room = Vec::new();
        }
        codec
    })
}

impl Packing {
    /// The length of `payload` as an LZ4 block, which stands in `room` then.
    fn lz4(&mut self, payload: &[u8]) -> Option<usize> {
        self.need_room(get_maximum_output_size(payload.len()));
        compress_into_with_table(payload, &mut self.room, &mut self.lz4).ok()
    }

    /// The length of `payload` as a Zstandard frame, which stands in `room` then; nothing when it would not be shorter.
    fn zstd(&mut self, payload: &[u8]) -> Option<usize> {
        self.need_room(payload.len());
        let room = self.room.get_mut(..payload.len())?;
        if self.zstd.is_none() {
            self.zstd = Compressor::new(ZSTD_LEVEL).ok();
        }
        self.zstd.as_mut()?.compress_to_buffer(payload, room).ok()
    }

    /// Only what was never used is cleared: the room does not shrink between batches.
    fn need_room(&mut self, bytes: usize) {
        if self.room.len() < bytes {
            self.room.resize(bytes, 0);
        }
    }
}

/// Unpacks a payload that says of itself that it has `stated` bytes when unpacked. Allocates that much and never more.
///
/// # Errors
/// [`DecodeError`]: more is stated than a payload may ever have had, the packed bytes are damaged, or they give another length.
pub fn unpack(codec: Codec, packed: &[u8], stated: u32) -> Result<Vec<u8>, DecodeError> {
    if stated > PAYLOAD_BYTES_MAX {
        return Err(DecodeError::Stated { stated, limit: PAYLOAD_BYTES_MAX });
    }
    let refused = DecodeError::Unpack { codec: codec.name(), stated };
    let length = stated as usize;
    if codec == Codec::None {
        return if packed.len() == length { Ok(packed.to_vec()) } else { Err(refused) };
    }
    let mut bytes = vec![0; length];
    let got = match codec {
        Codec::Lz4 => decompress_into(packed, &mut bytes).ok(),
        Codec::Zstd => unpack_zstd(packed, &mut bytes),
        Codec::None | Codec::Gzip | Codec::Snappy => None,
    };
    if got == Some(length) { Ok(bytes) } else { Err(refused) }
}

fn unpack_zstd(packed: &[u8], room: &mut [u8]) -> Option<usize> {
    UNPACKING.with_borrow_mut(|kept| {
        if kept.is_none() {
            *kept = Decompressor::new().ok();
        }
        kept.as_mut()?.decompress_to_buffer(packed, room).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::super::any;
    use super::*;
    use proptest::prelude::*;

    const OURS: [Codec; 2] = [Codec::Lz4, Codec::Zstd];

    fn packed(codec: Codec, payload: &[u8]) -> Vec<u8> {
        let mut bytes = payload.to_vec();
        assert_eq!(pack(codec, &mut bytes), codec, "{} bytes shrink", payload.len());
        bytes
    }

    fn refused(codec: Codec, stated: u32) -> Result<Vec<u8>, DecodeError> {
        Err(DecodeError::Unpack { codec: codec.name(), stated })
    }

    #[test]
    fn every_codec_has_its_number_and_its_name() {
        for (number, name) in ["none", "lz4", "zstd", "gzip", "snappy"].into_iter().enumerate() {
            let codec = Codec::of(number as u8).expect("a codec");
            assert_eq!((codec.number(), codec.name(), codec.to_string()), (number as u8, name, name.to_owned()));
            assert_eq!(codec.is_ours(), number < 3);
        }
        assert_eq!(Codec::of(5), None);
    }

    #[test]
    fn what_does_not_shrink_stays_as_it_is() {
        let noise = any::noise(2000);
        for payload in [&b""[..], b"a", b"short, no repeats", &noise] {
            for codec in OURS {
                let mut bytes = payload.to_vec();
                assert_eq!((pack(codec, &mut bytes), &bytes[..]), (Codec::None, payload));
            }
        }
        for codec in [Codec::None, Codec::Gzip, Codec::Snappy] {
            let mut bytes = vec![7; 5000];
            assert_eq!((pack(codec, &mut bytes), bytes), (Codec::None, vec![7; 5000]));
        }
    }

    #[test]
    fn the_callers_buffer_stays_the_callers() {
        for codec in OURS {
            let mut bytes = Vec::with_capacity(10_000);
            bytes.resize(5000, 7);
            let (place, room) = (bytes.as_ptr(), bytes.capacity());
            assert_eq!(pack(codec, &mut bytes), codec);
            assert_eq!((bytes.as_ptr(), bytes.capacity()), (place, room));
        }
    }

    #[test]
    fn a_stated_length_that_is_wrong_by_one_is_refused() {
        let payload = b"again and ".repeat(100);
        for codec in OURS {
            let packed = packed(codec, &payload);
            assert_eq!(unpack(codec, &packed, 1000), Ok(payload.clone()));
            for stated in [0, 1, 999, 1001, 5000] {
                assert_eq!(unpack(codec, &packed, stated), refused(codec, stated), "{codec}");
            }
        }
        assert_eq!(unpack(Codec::None, &payload, 1000), Ok(payload.clone()));
        for stated in [0, 999, 1001] {
            assert_eq!(unpack(Codec::None, &payload, stated), refused(Codec::None, stated));
        }
    }

    #[test]
    fn unpacking_stops_at_the_largest_payload_there_may_be() {
        let largest = vec![0; PAYLOAD_BYTES_MAX as usize];
        for codec in OURS {
            let packed = packed(codec, &largest);
            assert!(unpack(codec, &packed, PAYLOAD_BYTES_MAX).is_ok_and(|bytes| bytes.len() == largest.len()));
            let stated = PAYLOAD_BYTES_MAX + 1;
            let beyond = DecodeError::Stated { stated, limit: PAYLOAD_BYTES_MAX };
            assert_eq!(unpack(codec, &packed, stated), Err(beyond));
        }
    }

    #[test]
    fn packed_bytes_that_are_cut_short_or_go_on_are_refused_at_every_byte() {
        let payload = b"again and ".repeat(100);
        for codec in OURS {
            let packed = packed(codec, &payload);
            for length in 0..packed.len() {
                assert_eq!(unpack(codec, &packed[..length], 1000), refused(codec, 1000), "{codec}, {length} bytes");
            }
            let more = [&packed[..], b"more"].concat();
            assert_eq!(unpack(codec, &more, 1000), refused(codec, 1000), "{codec}");
        }
    }

    #[test]
    fn what_others_compress_is_not_unpacked() {
        for codec in [Codec::Gzip, Codec::Snappy] {
            assert_eq!(unpack(codec, b"bytes", 5), refused(codec, 5));
        }
    }

    /// Bytes that repeat and bytes that do not, mixed.
    fn payload() -> impl Strategy<Value = Vec<u8>> {
        let noise = prop::collection::vec(any::<u8>(), 0..200);
        let again = (prop::collection::vec(any::<u8>(), 1..20), 1..60_usize);
        let part = prop_oneof![noise, again.prop_map(|(bytes, times)| bytes.repeat(times))];
        prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn what_is_packed_unpacks(payload in payload(), codec in prop::sample::select(vec![Codec::None, Codec::Lz4, Codec::Zstd])) {
            let mut bytes = payload.clone();
            let codec = pack(codec, &mut bytes);
            prop_assert!(codec == Codec::None || bytes.len() < payload.len());
            prop_assert_eq!(unpack(codec, &bytes, payload.len() as u32), Ok(payload));
        }

        /// Damage may unpack to something else of the same length (a checksum stands before it), but to nothing longer or shorter.
        #[test]
        fn damaged_bytes_and_lying_lengths_give_the_stated_length_or_a_refusal(
            payload in payload(),
            codec in prop::sample::select(OURS.to_vec()),
            damages in prop::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 0..4),
            lie in prop_oneof![3 => Just(0_i64), 1 => -300..300_i64, 1 => Just(i64::from(PAYLOAD_BYTES_MAX))],
        ) {
            let mut bytes = payload.clone();
            pack(codec, &mut bytes);
            for (at, flip) in damages {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] ^= flip;
                }
            }
            let stated = (payload.len() as i64 + lie).max(0) as u32;
            match unpack(codec, &bytes, stated) {
                Ok(unpacked) => prop_assert_eq!(unpacked.len(), stated as usize),
                Err(why) => {
                    let is_typed = matches!(why, DecodeError::Unpack { .. } | DecodeError::Stated { .. });
                    prop_assert!(is_typed, "{}", why);
                }
            }
        }

        #[test]
        fn any_bytes_are_unpacked_without_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            magic in any::<bool>(),
            codec in prop::sample::select(OURS.to_vec()),
            stated in 0..5000_u32,
        ) {
            let zstd = [&[0x28, 0xb5, 0x2f, 0xfd], &bytes[..]].concat();
            let _ = unpack(codec, if magic { &zstd } else { &bytes }, stated);
        }
    }
}
