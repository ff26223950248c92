//! Policies: a document as it comes in a request, a name, and the edits that keep them.

use super::{cut, frame};
use strandline::format::manifest::{Edit, PolicyEdit};
use strandline::policy::{FIELD_LEVEL, Fields, POLICY_NAME_BYTES_MAX, Policy, PolicyName, Vocabulary};

/// The kinds of edits that speak of policies.
const KINDS: std::ops::RangeInclusive<u8> = 18..=23;

/// The bytes are a document of JSON, a name, and the fields of an edit.
pub fn check(bytes: &[u8]) {
    let bytes = cut(bytes);
    if let Ok(fields) = serde_json::from_slice::<Fields>(bytes) {
        document(&fields);
    }
    if let Some(name) = std::str::from_utf8(bytes).ok().and_then(|text| PolicyName::new(text).ok()) {
        assert!(name.as_str().as_bytes() == bytes && bytes.len() <= POLICY_NAME_BYTES_MAX);
    }
    for kind in KINDS {
        edit(kind, bytes);
    }
}

fn vocabulary(host_fields: &[String]) -> Vocabulary<'_> {
    Vocabulary { host_fields, level: FIELD_LEVEL }
}

/// A document that is taken says the same after a trip over the wire, and can be kept.
fn document(fields: &Fields) {
    let host_fields = ["spread_by".to_owned(), "a".to_owned()];
    let policy = match fields.policy(vocabulary(&host_fields)) {
        Ok(policy) => policy,
        Err(error) => return assert!(error.to_string().len() < 2_000, "a refusal stays short"),
    };
    let json = serde_json::to_vec(&Fields::from(&policy)).expect("plain fields");
    let again: Fields = serde_json::from_slice(&json).expect("what was written");
    assert_eq!(again.policy(vocabulary(&host_fields)).as_ref(), Ok(&policy));
    kept(policy);
}

/// The edit that keeps a policy reads back.
fn kept(policy: Policy) {
    let edit = Edit::Policy(PolicyEdit::Global { policy });
    assert_eq!(frame::round_trip(&edit), [edit]);
}

fn edit(kind: u8, fields: &[u8]) {
    let Ok(length) = u32::try_from(fields.len()) else { return };
    let edits = [&[kind][..], &length.to_le_bytes(), fields].concat();
    for edit in frame::read(&frame::of_edits(&edits), frame::PLACE) {
        let Edit::Policy(edit) = edit else { panic!("kind {kind} is {edit:?}") };
        if let PolicyEdit::Defined { policy, .. } | PolicyEdit::Global { policy } = edit {
            // What is read of a disk is what a request could have asked for.
            let host_fields: Vec<String> = policy.host.keys().cloned().collect();
            assert_eq!(Fields::from(&policy).policy(vocabulary(&host_fields)).as_ref(), Ok(&policy));
        }
    }
}
