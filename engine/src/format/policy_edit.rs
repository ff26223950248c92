//! What edits say of policies, and their bytes: kinds 18 to 23 of FORMAT.md.

use super::edit::EditError;
use super::field::{Reader, Writer};
use crate::id::Topic;
use crate::policy::{
    Bound, HOST_FIELD_BYTES_MAX, HOST_FIELDS_MAX, HOST_VALUE_BYTES_MAX, Levels, POLICY_NAME_BYTES_MAX, Policy,
    PolicyName, SEGMENT_MAX_AGE_MS_MIN,
};

/// One change of what the manifest says of policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyEdit {
    /// A policy is defined, or defined anew.
    Defined {
        /// Its name.
        name: PolicyName,
        /// All that it says.
        policy: Policy,
    },
    /// A policy is defined no more. Topics may still be bound to it.
    Deleted {
        /// Its name.
        name: PolicyName,
    },
    /// A topic is bound to a policy. It says nothing of a topic that has no log.
    Bound {
        /// The topic.
        topic: Topic,
        /// The policy's name.
        name: PolicyName,
    },
    /// A topic is bound to no policy.
    Unbound {
        /// The topic.
        topic: Topic,
    },
    /// What applies where a policy does not say.
    Global {
        /// All of it.
        policy: Policy,
    },
    /// The upgrade was finished this far.
    Finalized {
        /// The levels, none lower than before.
        levels: Levels,
    },
}

/// The bytes of a bound: its state and its number.
const BOUND_BYTES: usize = 1 + 8;

/// The bytes of the longest edit of a policy: a snapshot's frames are filled well only when no edit takes half of one.
pub(super) const POLICY_EDIT_BYTES_MAX: usize = 5
    + 2
    + POLICY_NAME_BYTES_MAX
    + 3 * BOUND_BYTES
    + 2
    + HOST_FIELDS_MAX * (2 + HOST_FIELD_BYTES_MAX + 1 + 2 + HOST_VALUE_BYTES_MAX);

const _: () = assert!(POLICY_EDIT_BYTES_MAX <= 8 << 10);

impl PolicyEdit {
    pub(super) fn kind(&self) -> u8 {
        match self {
            PolicyEdit::Defined { .. } => 18,
            PolicyEdit::Deleted { .. } => 19,
            PolicyEdit::Bound { .. } => 20,
            PolicyEdit::Unbound { .. } => 21,
            PolicyEdit::Global { .. } => 22,
            PolicyEdit::Finalized { .. } => 23,
        }
    }

    /// The length of the fields, in bytes.
    #[expect(clippy::arithmetic_side_effects, reason = "names are bounded, and so are policies")]
    pub(super) fn fields_bytes(&self) -> usize {
        let name_bytes = |name: &PolicyName| 2 + name.as_str().len();
        let topic_bytes = |topic: &Topic| 2 + topic.as_bytes().len();
        match self {
            PolicyEdit::Defined { name, policy } => name_bytes(name) + policy_bytes(policy),
            PolicyEdit::Deleted { name } => name_bytes(name),
            PolicyEdit::Bound { topic, name } => topic_bytes(topic) + name_bytes(name),
            PolicyEdit::Unbound { topic } => topic_bytes(topic),
            PolicyEdit::Global { policy } => policy_bytes(policy),
            PolicyEdit::Finalized { .. } => 4 + 4,
        }
    }

    pub(super) fn write_fields(&self, writer: &mut Writer<'_>) {
        match self {
            PolicyEdit::Defined { name, policy } => {
                write_short(writer, name.as_str().as_bytes());
                write_policy(writer, policy);
            }
            PolicyEdit::Deleted { name } => write_short(writer, name.as_str().as_bytes()),
            PolicyEdit::Bound { topic, name } => {
                write_short(writer, topic.as_bytes());
                write_short(writer, name.as_str().as_bytes());
            }
            PolicyEdit::Unbound { topic } => write_short(writer, topic.as_bytes()),
            PolicyEdit::Global { policy } => write_policy(writer, policy),
            PolicyEdit::Finalized { levels } => {
                writer.u32(levels.fields);
                writer.u32(levels.bindings);
            }
        }
    }

    pub(super) fn read_fields(kind: u8, fields: &mut Reader<'_>) -> Result<PolicyEdit, EditError> {
        Ok(match kind {
            18 => PolicyEdit::Defined { name: read_name(fields)?, policy: read_policy(fields)? },
            19 => PolicyEdit::Deleted { name: read_name(fields)? },
            20 => PolicyEdit::Bound { topic: read_topic(fields)?, name: read_name(fields)? },
            21 => PolicyEdit::Unbound { topic: read_topic(fields)? },
            22 => PolicyEdit::Global { policy: read_policy(fields)? },
            23 => PolicyEdit::Finalized { levels: Levels { fields: read_u32(fields)?, bindings: read_u32(fields)? } },
            unknown => return Err(EditError::Kind(unknown)),
        })
    }
}

#[expect(clippy::arithmetic_side_effects, reason = "a policy is bounded")]
fn policy_bytes(policy: &Policy) -> usize {
    let host = policy.host.iter().map(|(name, value)| 2 + name.len() + 1 + 2 + value.as_ref().map_or(0, String::len));
    3 * BOUND_BYTES + 2 + host.sum::<usize>()
}

fn write_short(writer: &mut Writer<'_>, bytes: &[u8]) {
    writer.u16(bytes.len() as u16);
    writer.bytes(bytes);
}

fn write_policy(writer: &mut Writer<'_>, policy: &Policy) {
    for bound in [policy.max_age_ms, policy.max_bytes, policy.segment_max_age_ms] {
        let (state, number) = match bound {
            Bound::Inherit => (0, 0),
            Bound::Off => (1, 0),
            Bound::Is(number) => (2, number),
        };
        writer.u8(state);
        writer.u64(number);
    }
    writer.u16(policy.host.len() as u16);
    for (name, value) in &policy.host {
        write_short(writer, name.as_bytes());
        writer.u8(u8::from(value.is_some()));
        write_short(writer, value.as_deref().unwrap_or_default().as_bytes());
    }
}

fn read_u32(fields: &mut Reader<'_>) -> Result<u32, EditError> {
    fields.u32().ok_or(EditError::Short)
}

fn read_text<'a>(fields: &mut Reader<'a>, name: &'static str) -> Result<&'a str, EditError> {
    let bytes = fields.short_bytes().ok_or(EditError::Short)?;
    std::str::from_utf8(bytes).map_err(|_| EditError::Field(name))
}

fn read_name(fields: &mut Reader<'_>) -> Result<PolicyName, EditError> {
    PolicyName::new(read_text(fields, "policy name")?).map_err(|_| EditError::Field("policy name"))
}

fn read_topic(fields: &mut Reader<'_>) -> Result<Topic, EditError> {
    Topic::new(fields.short_bytes().ok_or(EditError::Short)?).map_err(|_| EditError::Field("topic"))
}

fn read_bound(fields: &mut Reader<'_>) -> Result<Bound, EditError> {
    let state = fields.u8().ok_or(EditError::Short)?;
    match (state, fields.u64().ok_or(EditError::Short)?) {
        (0, 0) => Ok(Bound::Inherit),
        (1, 0) => Ok(Bound::Off),
        (2, number) => Ok(Bound::Is(number)),
        _ => Err(EditError::Field("bound")),
    }
}

fn read_policy(fields: &mut Reader<'_>) -> Result<Policy, EditError> {
    let mut policy = Policy {
        max_age_ms: read_bound(fields)?,
        max_bytes: read_bound(fields)?,
        segment_max_age_ms: read_bound(fields)?,
        ..Policy::default()
    };
    if matches!(policy.segment_max_age_ms, Bound::Is(age) if age < SEGMENT_MAX_AGE_MS_MIN) {
        return Err(EditError::Field("segment max age"));
    }
    let count = fields.u16().ok_or(EditError::Short)?;
    if usize::from(count) > HOST_FIELDS_MAX {
        return Err(EditError::Field("host fields"));
    }
    for _ in 0..count {
        let (name, value) = read_host_field(fields)?;
        // In the order of their names, each once: there is one way to write a policy.
        if policy.host.last_key_value().is_some_and(|(last, _)| *last >= name) {
            return Err(EditError::Field("host fields"));
        }
        policy.host.insert(name, value);
    }
    Ok(policy)
}

fn read_host_field(fields: &mut Reader<'_>) -> Result<(String, Option<String>), EditError> {
    let name = read_text(fields, "host field name")?;
    let is_on = fields.u8().ok_or(EditError::Short)?;
    let value = read_text(fields, "host field value")?;
    if name.is_empty() || name.len() > HOST_FIELD_BYTES_MAX {
        return Err(EditError::Field("host field name"));
    }
    match (is_on, value.len()) {
        (0, 0) => Ok((name.to_owned(), None)),
        (1, 1..=HOST_VALUE_BYTES_MAX) => Ok((name.to_owned(), Some(value.to_owned()))),
        _ => Err(EditError::Field("host field value")),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::any;
    use super::super::edit::Edit;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn name(text: &str) -> PolicyName {
        PolicyName::new(text).expect("a name")
    }

    /// A policy with every state of a field, and its bytes as the table of FORMAT.md lays them out.
    fn policy() -> (Policy, Vec<u8>) {
        let host = BTreeMap::from([("rack".to_owned(), None), ("zone".to_owned(), Some("eu".to_owned()))]);
        let policy = Policy {
            max_age_ms: Bound::Is(0x0102_0304),
            max_bytes: Bound::Off,
            segment_max_age_ms: Bound::Inherit,
            host,
        };
        let bytes = [
            &[2, 4, 3, 2, 1, 0, 0, 0, 0][..],
            &[1, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0; 9],
            &[2, 0],
            &[4, 0, b'r', b'a', b'c', b'k', 0, 0, 0],
            &[4, 0, b'z', b'o', b'n', b'e', 1, 2, 0, b'e', b'u'],
        ];
        (policy, bytes.concat())
    }

    /// One edit of every kind, with its bytes as the table of FORMAT.md lays them out.
    pub(in super::super) fn by_the_table() -> Vec<(Edit, Vec<u8>)> {
        let edit = |kind: u8, parts: &[&[u8]]| {
            let fields = parts.concat();
            [&[kind][..], &(fields.len() as u32).to_le_bytes(), &fields].concat()
        };
        let (policy, policy_bytes) = policy();
        let (topic, topic_bytes) = (Topic::new("ab").expect("short"), [2, 0, b'a', b'b']);
        let (short, name_bytes) = (name("sh"), [2, 0, b's', b'h']);
        let levels = Levels { fields: 0x0102_0304, bindings: 5 };
        let edits = [
            (
                PolicyEdit::Defined { name: short.clone(), policy: policy.clone() },
                edit(18, &[&name_bytes, &policy_bytes]),
            ),
            (PolicyEdit::Deleted { name: short.clone() }, edit(19, &[&name_bytes])),
            (PolicyEdit::Bound { topic: topic.clone(), name: short }, edit(20, &[&topic_bytes, &name_bytes])),
            (PolicyEdit::Unbound { topic }, edit(21, &[&topic_bytes])),
            (PolicyEdit::Global { policy }, edit(22, &[&policy_bytes])),
            (PolicyEdit::Finalized { levels }, edit(23, &[&[4, 3, 2, 1], &[5, 0, 0, 0]])),
        ];
        edits.into_iter().map(|(policy, bytes)| (Edit::Policy(policy), bytes)).collect()
    }

    #[test]
    fn fields_that_never_may_be_are_refused_by_name() {
        let read = |bytes: &[u8]| read_policy(&mut Reader::new(bytes));
        let good = policy().1;
        assert_eq!(read(&good), Ok(policy().0));
        let damages = [
            (0, 3, "bound"),
            (10, 1, "bound"), // Off with a number.
            (19, 1, "bound"), // Inherited with a number.
            (18, 2, "segment max age"),
            (27, 17, "host fields"),
            (31, 0xff, "host field name"),
            (35, 1, "host field value"), // On without a value.
            (44, 0, "host field value"), // Off with a value.
            (47, 0xff, "host field value"),
        ];
        for (at, value, field) in damages {
            let mut bytes = good.clone();
            bytes[at] = value;
            assert_eq!(read(&bytes), Err(EditError::Field(field)), "byte {at}");
        }
        let mut twice = good.clone();
        any::put(&mut twice, 40, b"rack");
        assert_eq!(read(&twice), Err(EditError::Field("host fields")));
    }

    #[test]
    fn a_name_that_no_policy_has_is_refused() {
        for bytes in [&[0, 0][..], &[1, 0, 0xff], &[1, 0, b' ']] {
            let found = PolicyEdit::read_fields(19, &mut Reader::new(bytes));
            assert_eq!(found, Err(EditError::Field("policy name")), "{bytes:?}");
        }
    }

    #[test]
    fn the_largest_policy_is_no_longer_than_it_may_be() {
        let field = |number: usize| format!("{number:064}");
        let host = (0..HOST_FIELDS_MAX).map(|number| (field(number), Some("v".repeat(HOST_VALUE_BYTES_MAX)))).collect();
        let policy = Policy { host, ..Policy::default() };
        let edit = PolicyEdit::Defined { name: name(&"n".repeat(POLICY_NAME_BYTES_MAX)), policy };
        assert_eq!(Edit::Policy(edit).encoded_bytes(), POLICY_EDIT_BYTES_MAX);
    }

    fn any_bound(least: u64) -> impl Strategy<Value = Bound> {
        let number = any::number().prop_map(move |number| Bound::Is(number.max(least)));
        prop_oneof![Just(Bound::Inherit), Just(Bound::Off), number]
    }

    fn any_policy() -> impl Strategy<Value = Policy> {
        let host = prop::collection::btree_map("[a-zé._]{1,16}", prop::option::of("\\PC{1,30}"), 0..=HOST_FIELDS_MAX);
        (any_bound(0), any_bound(0), any_bound(SEGMENT_MAX_AGE_MS_MIN), host).prop_map(
            |(max_age_ms, max_bytes, segment_max_age_ms, host)| Policy {
                max_age_ms,
                max_bytes,
                segment_max_age_ms,
                host,
            },
        )
    }

    /// Any edit of a policy.
    pub(in super::super) fn any_policy_edit() -> impl Strategy<Value = PolicyEdit> {
        let name = "[a-z:/é]{1,60}".prop_map(|text| name(&text));
        let levels = (any::<u32>(), any::<u32>()).prop_map(|(fields, bindings)| Levels { fields, bindings });
        (18..=23_u8, name, any::log_id(), any_policy(), levels).prop_map(|(kind, name, log, policy, levels)| match kind
        {
            18 => PolicyEdit::Defined { name, policy },
            19 => PolicyEdit::Deleted { name },
            20 => PolicyEdit::Bound { topic: log.topic, name },
            21 => PolicyEdit::Unbound { topic: log.topic },
            22 => PolicyEdit::Global { policy },
            _ => PolicyEdit::Finalized { levels },
        })
    }
}
