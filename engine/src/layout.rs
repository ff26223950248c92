//! Names on disk: which directory belongs to which segment, which file to which generation, and what a name found there can mean.
//!
//! Pure functions between ids and names. Nothing here looks at a disk or decides what happens to a name that means nothing.
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

use crate::id::{GENERATION_MAX, Generation, Life, LogId, RangeNumber, SegmentId, Seq, Topic, Uid};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::fmt;
use strandline_disk::Name;
use strandline_disk::name::NAME_BYTES_MAX;

/// One block; its presence says that the store was made completely.
pub const FORMAT_FILE: &str = "strandline.format";
/// One block: the store's identity. The lock is held on it.
pub const ID_FILE: &str = "strandline.id";
/// What tests at open whether the file system does what the store needs.
pub const PROBE_FILE: &str = "strandline.probe";
/// The directory of the two copies of the manifest.
pub const MANIFEST_DIRECTORY: &str = "manifest";
/// The directory of written files that are ready to become segments.
pub const SPARE_DIRECTORY: &str = "spare";
/// The directory of what was given up and is being emptied.
pub const TRASH_DIRECTORY: &str = "trash";

/// The directory of the audit log.
pub const AUDIT_DIRECTORY: &str = "audit";
/// Blocks that are allocated and hold nothing, for removal on a full disk.
pub const RESERVE_FILE: &str = "strandline.reserve";

/// The names below the root that belong to the store itself. None of them reads as a segment.
pub const RESERVED: [&str; 8] = [
    FORMAT_FILE,
    ID_FILE,
    PROBE_FILE,
    RESERVE_FILE,
    MANIFEST_DIRECTORY,
    SPARE_DIRECTORY,
    TRASH_DIRECTORY,
    AUDIT_DIRECTORY,
];

// Tags of the Erlang external term format.
const TERM_VERSION: u8 = 131;
const TERM_SMALL_TUPLE: u8 = 104;
const TERM_BINARY: u8 = 109;
const TERM_BYTE: u8 = 97;
const TERM_INTEGER: u8 = 98;

/// The name of the segment's directory.
#[must_use]
#[expect(clippy::expect_used, reason = "a topic is no longer than its names may be")]
pub fn directory_name(id: &SegmentId) -> Name {
    let text = match id.log.topic.as_readable() {
        Some(topic) => format!("{topic}-r{}-s{}", id.log.range, id.seq),
        None => URL_SAFE_NO_PAD.encode(term_of(id)),
    };
    Name::new(&text).expect("the limit of a topic's length keeps every directory name a valid name")
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(directory_name(self).as_str())
    }
}

/// Every segment whose directory has exactly this name.
///
/// A name is read by parsing, and the reading counts only when it gives the same bytes again: `t-r0-s01` and a Base64 spelling of
/// an id that would have a readable name mean nothing, and nor does a name whose topic could never have been created.
#[must_use]
pub fn candidate_ids(name: impl AsRef<[u8]>) -> Vec<SegmentId> {
    let name = name.as_ref();
    if name.len() > NAME_BYTES_MAX {
        return Vec::new();
    }
    let is_exact = |id: &SegmentId| directory_name(id).as_str().as_bytes() == name;
    [read_readable(name), read_encoded(name)].into_iter().flatten().filter(is_exact).collect()
}

/// The name of the data file of this generation.
#[must_use]
#[expect(clippy::expect_used, reason = "made of letters and digits alone")]
pub fn data_file_name(generation: Generation) -> Name {
    Name::new(&format!("data.{generation}")).expect("a word and a number are a valid name")
}

/// The generation whose data file has exactly this name.
#[must_use]
pub fn data_file_generation(name: &str) -> Option<Generation> {
    let number = name.strip_prefix("data.")?.parse().ok().filter(|number| *number <= GENERATION_MAX)?;
    let generation = Generation(number);
    (data_file_name(generation).as_str() == name).then_some(generation)
}

/// The name of the file that keeps what recovery set aside in this life.
#[must_use]
#[expect(clippy::expect_used, reason = "made of letters and digits alone")]
pub fn torn_file_name(life: Life) -> Name {
    Name::new(&format!("torn.{life}")).expect("a word and a number are a valid name")
}

/// The life whose set-aside bytes have exactly this name.
#[must_use]
pub fn torn_file_life(name: &str) -> Option<Life> {
    let life = Life(name.strip_prefix("torn.")?.parse().ok()?);
    (torn_file_name(life).as_str() == name).then_some(life)
}

/// The name of the directory, below `spare` or `trash`, of the file with this uid.
#[must_use]
#[expect(clippy::expect_used, reason = "made of letters and digits alone")]
pub fn uid_directory_name(uid: Uid) -> Name {
    Name::new(&uid.to_string()).expect("32 hexadecimal digits are a valid name")
}

/// The uid whose directory has exactly this name.
#[must_use]
pub fn uid_of_directory(name: &str) -> Option<Uid> {
    let uid = Uid(u128::from_str_radix(name, 16).ok()?);
    (uid_directory_name(uid).as_str() == name).then_some(uid)
}

/// `TOPIC-rR-sS`. Digits hold no dash, so the last `-s` and the last `-r` before it are the only ones that can stand for the layout.
fn read_readable(name: &[u8]) -> Option<SegmentId> {
    let (log, seq) = std::str::from_utf8(name).ok()?.rsplit_once("-s")?;
    let (topic, range) = log.rsplit_once("-r")?;
    segment(topic.as_bytes(), range.parse().ok()?, seq.parse().ok()?)
}

/// URL-safe Base64, without padding, of the external term `{{Topic, R}, S}`.
fn read_encoded(name: &[u8]) -> Option<SegmentId> {
    let term = URL_SAFE_NO_PAD.decode(name).ok()?;
    let rest = term.strip_prefix(&[TERM_VERSION, TERM_SMALL_TUPLE, 2, TERM_SMALL_TUPLE, 2, TERM_BINARY])?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (topic, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    let (range, rest) = read_integer(rest)?;
    let (seq, rest) = read_integer(rest)?;
    if rest.is_empty() { segment(topic, range, seq) } else { None }
}

fn read_integer(term: &[u8]) -> Option<(u32, &[u8])> {
    match term.split_first()? {
        (&TERM_BYTE, rest) => rest.split_first().map(|(&number, rest)| (u32::from(number), rest)),
        (&TERM_INTEGER, rest) => {
            rest.split_first_chunk::<4>().map(|(number, rest)| (u32::from_be_bytes(*number), rest))
        }
        _ => None,
    }
}

fn segment(topic: &[u8], range: u32, seq: u32) -> Option<SegmentId> {
    let log = LogId { topic: Topic::new(topic).ok()?, range: RangeNumber::new(range)? };
    Some(SegmentId { log, seq: Seq::new(seq)? })
}

fn term_of(id: &SegmentId) -> Vec<u8> {
    let topic = id.log.topic.as_bytes();
    let mut term = vec![TERM_VERSION, TERM_SMALL_TUPLE, 2, TERM_SMALL_TUPLE, 2, TERM_BINARY];
    term.extend_from_slice(&(topic.len() as u32).to_be_bytes());
    term.extend_from_slice(topic);
    write_integer(&mut term, id.log.range.get());
    write_integer(&mut term, id.seq.get());
    term
}

fn write_integer(term: &mut Vec<u8>, number: u32) {
    match u8::try_from(number) {
        Ok(byte) => term.extend_from_slice(&[TERM_BYTE, byte]),
        Err(_) => {
            term.push(TERM_INTEGER);
            term.extend_from_slice(&number.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(topic: impl AsRef<[u8]>, range: u32, seq: u32) -> SegmentId {
        segment(topic.as_ref(), range, seq).expect("a valid id")
    }

    /// The vectors of SEMANTICS, section 2.
    const VECTORS: [(&[u8], u32, u32, &str); 6] = [
        (b"t", 0, 1, "t-r0-s1"),
        (b"a/b", 0, 3, "g2gCaAJtAAAAA2EvYmEAYQM"),
        (b"..", 0, 0, "g2gCaAJtAAAAAi4uYQBhAA"),
        (b"", 0, 0, "g2gCaAJtAAAAAGEAYQA"),
        (b"\xc3\xa9", 1, 256, "g2gCaAJtAAAAAsOpYQFiAAABAA"),
        (b"a-r0-s0", 1, 2, "a-r0-s0-r1-s2"),
    ];

    #[test]
    fn the_vectors_of_the_layout_hold_in_both_directions() {
        for (topic, range, seq, name) in VECTORS {
            let id = id(topic, range, seq);
            assert_eq!(directory_name(&id).as_str(), name);
            assert_eq!(id.to_string(), name);
            assert_eq!(candidate_ids(name), [id]);
        }
    }

    #[test]
    fn look_alikes_have_no_reading() {
        let spelled = URL_SAFE_NO_PAD.encode(term_of(&id("t", 0, 1)));
        let mut wide = term_of(&id("a/b", 0, 3));
        wide.splice(wide.len() - 2.., [TERM_INTEGER, 0, 0, 0, 3]);
        let wide = URL_SAFE_NO_PAD.encode(wide);
        let padded = format!("{}=", VECTORS[1].3);
        let trailing = URL_SAFE_NO_PAD.encode([term_of(&id("a/b", 0, 3)), vec![0]].concat());
        let names = [
            "",
            "t",
            "t-r0",
            "t-s1",
            "t-s1-r0",
            "t-r0-s01",
            "t-r00-s1",
            "t-r+0-s1",
            "t-r0-s-1",
            "t-r0-s",
            "t-r-s1",
            "-r0-s1",
            ".-r0-s1",
            "..-r0-s1",
            "backup",
            "lost+found",
            "t-r0-s2147483648",
            "t-r2147483648-s0",
            "t-r0-s1/",
            "t-r0-s1 ",
            "T/-r0-s1",
            "t-r0-s99999999999999999999",
            "g2gCaAJtAAAAA2EvYmEAYQN",
            &spelled,
            &wide,
            &padded,
            &trailing,
        ];
        for name in names.into_iter().chain(RESERVED) {
            assert_eq!(candidate_ids(name), [], "{name}");
        }
        assert_eq!(candidate_ids("x-r1-s2"), [id("x", 1, 2)]);
        assert_eq!(candidate_ids("-r0-s1-r0-s1"), [id("-r0-s1", 0, 1)]);
    }

    #[test]
    fn the_widest_names_of_the_longest_topics_still_fit() {
        let widest = i32::MAX as u32;
        let readable = directory_name(&id("x".repeat(231), widest, widest));
        let encoded = directory_name(&id("/".repeat(171), widest, widest));
        assert_eq!(readable.as_str().len(), 255);
        assert_eq!(encoded.as_str().len(), 255);
    }

    #[test]
    fn a_name_whose_topic_could_never_be_created_has_no_reading() {
        let name = format!("{}-r0-s1", "x".repeat(232));
        assert!(name.len() < 255);
        assert_eq!(candidate_ids(name), []);
    }

    #[test]
    fn file_names_read_back_only_as_they_are_written() {
        assert_eq!(data_file_name(Generation(7)).as_str(), "data.7");
        assert_eq!(data_file_generation("data.7"), Some(Generation(7)));
        assert_eq!(torn_file_name(Life(12)).as_str(), "torn.12");
        assert_eq!(torn_file_life("torn.12"), Some(Life(12)));
        for name in
            ["data.", "data.07", "data.+7", "data.4294967296", "data.2147483648", "data", "DATA.7", "data.7 ", "torn.1"]
        {
            assert_eq!(data_file_generation(name), None, "{name}");
        }
        let name = uid_directory_name(Uid(0xab));
        assert_eq!(uid_of_directory(name.as_str()), Some(Uid(0xab)));
        for name in ["ab", "000000000000000000000000000000AB", "+00000000000000000000000000000ab", ""] {
            assert_eq!(uid_of_directory(name), None, "{name}");
        }
    }

    fn any_topic() -> impl Strategy<Value = Topic> {
        let readable = "[A-Za-z0-9._-]{1,231}".prop_map(String::into_bytes);
        let look_alike = "(g2gC)?[A-Za-z0-9_-]{0,12}-r[0-9]{1,2}-s[0-9]{1,2}".prop_map(String::into_bytes);
        let any = prop::collection::vec(any::<u8>(), 0..=171);
        prop_oneof![readable, look_alike, any].prop_map(|name| Topic::new(name).expect("within the limits"))
    }

    proptest! {
        #[test]
        fn every_directory_name_reads_back_to_its_own_id_only(
            topic in any_topic(),
            range in prop_oneof![0..300_u32, 0..=i32::MAX as u32],
            seq in prop_oneof![0..300_u32, 0..=i32::MAX as u32],
        ) {
            let id = id(topic, range, seq);
            prop_assert_eq!(candidate_ids(directory_name(&id).as_str()), [id]);
        }

        #[test]
        fn any_bytes_are_read_without_panic(name in prop::collection::vec(any::<u8>(), 0..300)) {
            for id in candidate_ids(&name) {
                prop_assert!(id.to_string().as_bytes() == name.as_slice());
            }
        }

        #[test]
        fn any_term_is_read_without_panic(tail in prop::collection::vec(any::<u8>(), 0..40), zeros in 0..4_usize) {
            let mut term = vec![TERM_VERSION, TERM_SMALL_TUPLE, 2, TERM_SMALL_TUPLE, 2, TERM_BINARY];
            term.extend(std::iter::repeat_n(0, zeros));
            term.extend(tail);
            let name = URL_SAFE_NO_PAD.encode(term);
            for id in candidate_ids(&name) {
                prop_assert_eq!(id.to_string(), name.as_str());
            }
        }
    }
}
