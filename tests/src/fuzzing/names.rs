//! Names of directories and files: what a name that is found can mean, and what name an id gets.

use super::{choices, cut};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use strandline::id::{LogId, NUMBER_MAX, RangeNumber, SegmentId, Seq, Topic};
use strandline::layout;
use strandline_disk::name::NAME_BYTES_MAX;

/// What the term of every segment begins with, in front of the length of its topic.
const TERM: [u8; 6] = [131, 104, 2, 104, 2, 109];

/// Eight bytes of numbers, then a topic; all of the bytes as a name, as a term, and as what stands behind the start of one.
pub fn check(bytes: &[u8]) {
    let bytes = cut(bytes);
    name(bytes);
    name(URL_SAFE_NO_PAD.encode(bytes).as_bytes());
    name(URL_SAFE_NO_PAD.encode([&TERM[..], bytes].concat()).as_bytes());
    let (numbers, topic) = choices::<8>(bytes);
    let topic_length = (topic.len() as u32).to_be_bytes();
    let term = [&TERM[..], &topic_length, topic, &[97, numbers[0], 98], &numbers[4..]].concat();
    name(URL_SAFE_NO_PAD.encode(term).as_bytes());
    let [range, seq] = [0, 4].map(|at| u32::from_le_bytes([0, 1, 2, 3].map(|byte| numbers[at + byte])) & NUMBER_MAX);
    for number in [range, range % 300] {
        segment(topic, number, seq);
    }
}

/// A name that reads back is written again byte for byte, and means one thing.
fn name(bytes: &[u8]) {
    let ids = layout::candidate_ids(bytes);
    assert!(ids.len() <= 1, "{ids:?}");
    for id in &ids {
        let again = layout::directory_name(id);
        assert_eq!(again.as_str().as_bytes(), bytes, "{id:?}");
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    assert!(ids.is_empty() || !layout::RESERVED.contains(&text));
    if let Some(generation) = layout::data_file_generation(text) {
        assert_eq!(layout::data_file_name(generation).as_str(), text);
    }
    if let Some(life) = layout::torn_file_life(text) {
        assert_eq!(layout::torn_file_name(life).as_str(), text);
    }
    if let Some(uid) = layout::uid_of_directory(text) {
        assert_eq!(layout::uid_directory_name(uid).as_str(), text);
    }
}

/// Whatever a topic is called, its segments have names that lead nowhere else and read back.
fn segment(topic: &[u8], range: u32, seq: u32) {
    let Ok(topic) = Topic::new(topic) else { return };
    let (range, seq) = (RangeNumber::new(range).expect("masked"), Seq::new(seq).expect("masked"));
    let id = SegmentId { log: LogId { topic, range }, seq };
    let name = layout::directory_name(&id);
    let text = name.as_str();
    assert!((1..=NAME_BYTES_MAX).contains(&text.len()), "{text:?}");
    assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)), "{text:?}");
    assert!(!matches!(text, "." | "..") && !layout::RESERVED.contains(&text), "{text:?}");
    assert_eq!(layout::candidate_ids(text), [id]);
}
