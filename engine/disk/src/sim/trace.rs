//! The trace: a running hash of all that happened, and the text of it when asked for.

use super::random::mix;

#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    hash: u64,
    lines: Option<Vec<String>>,
}

impl Trace {
    /// Notes an event. The text is made only when somebody keeps it.
    pub(super) fn note(&mut self, parts: &[u64], text: impl FnOnce() -> String) {
        for part in parts {
            self.hash = mix(self.hash.wrapping_add(*part).wrapping_add(0x9e37_79b9_7f4a_7c15));
        }
        if let Some(lines) = &mut self.lines {
            lines.push(text());
        }
    }

    pub(super) fn keep_text(&mut self, keep: bool) {
        self.lines = keep.then(|| self.lines.take().unwrap_or_default());
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.clone().unwrap_or_default()
    }
}

/// A hash of bytes: the trace must notice when a write carries other bytes. Four lanes, so that the multiplications of one
/// do not wait for those of another.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    let add = |lane: u64, word: u64| (lane ^ word).wrapping_mul(0x9fb2_1c65_1e98_df25).rotate_left(29);
    let (rows, rest) = bytes.as_chunks::<32>();
    let mut lanes = [bytes.len() as u64, 1, 2, 3];
    for row in rows {
        let (words, _) = row.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = add(*lane, u64::from_le_bytes(*word));
        }
    }
    let hash = lanes.into_iter().fold(0, |hash, lane| mix(hash ^ lane));
    mix(rest.iter().fold(hash, |hash, byte| add(hash, u64::from(*byte))))
}
