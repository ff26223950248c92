//! Fields: a policy as it comes over a wire or in a request, a map from names to numbers, texts and null. One set of checks for every
//! surface. Nothing is guessed: what is not exactly right is refused, and the refusal names the field, its value and what to change.

use super::{Bound, Policy};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::fmt;

/// The least age at which segments are rolled, in milliseconds.
pub const SEGMENT_MAX_AGE_MS_MIN: u64 = 60_000;

/// The most fields of the host in one policy.
pub const HOST_FIELDS_MAX: usize = 16;

/// The longest name of a field of the host, in bytes.
pub const HOST_FIELD_BYTES_MAX: usize = 64;

/// The longest value of a field of the host, in bytes.
pub const HOST_VALUE_BYTES_MAX: usize = 255;

const MAX_AGE_MS: &str = "retention.max_age_ms";
const MAX_BYTES: &str = "retention.max_bytes";
const SEGMENT_MAX_AGE_MS: &str = "retention.segment_max_age_ms";

/// The fields that the store gives a meaning, and the level at which a store takes each.
const OWN: [(&str, u32); 8] = [
    (MAX_AGE_MS, 1),
    (MAX_BYTES, 1),
    (SEGMENT_MAX_AGE_MS, 1),
    ("cleanup", 2),
    ("min_cleanable_dirty_ratio", 2),
    ("min_compaction_lag_ms", 2),
    ("max_compaction_lag_ms", 2),
    ("delete_retention_ms", 2),
];

/// Whether the store itself gives a field of this name a meaning.
#[must_use]
pub fn is_own_field(name: &str) -> bool {
    OWN.iter().any(|(own, _)| *own == name)
}

/// What may stand in a policy: the host's own fields, and how far the store's upgrade has come.
#[derive(Clone, Copy, Debug)]
pub struct Vocabulary<'a> {
    /// The names of the host's fields.
    pub host_fields: &'a [String],
    /// The level of fields that the store takes.
    pub level: u32,
}

/// A value as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// Null: this rule does not apply.
    Off,
    /// A whole number from 0 on.
    Number(u64),
    /// A text.
    Text(String),
    /// Anything else, as it is shown: no field takes it.
    Other(String),
}

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldValue::Off => f.write_str("null"),
            FieldValue::Number(number) => write!(f, "{number}"),
            FieldValue::Text(text) => write!(f, "{text:?}"),
            FieldValue::Other(shown) => f.write_str(shown),
        }
    }
}

/// Fields in the order in which they came, those that came twice included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, FieldValue)>);

/// A field of a policy was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// Nobody gives such a field a meaning.
    #[error(
        "policy field {field:?} = {value} is unknown: use one of {known}; a host names its own fields in host_fields"
    )]
    Unknown {
        /// The field.
        field: String,
        /// Its value.
        value: String,
        /// The fields that there are.
        known: String,
    },
    /// A bound is a number or null.
    #[error(
        "policy field {field} = {value} is no number: give a whole number from 0 to 2^64-1 without unit, sign or separator, or null for off"
    )]
    NotANumber {
        /// The field.
        field: String,
        /// Its value.
        value: String,
    },
    /// A field of the host is a text or null.
    #[error("policy field {field} = {value} is no text: give a text that is not empty, or null for off")]
    NotAText {
        /// The field.
        field: String,
        /// Its value.
        value: String,
    },
    /// A value is longer than the store keeps.
    #[error("policy field {field} has a value of {bytes} bytes ({value}...): shorten it to at most {limit}")]
    TooLong {
        /// The field.
        field: String,
        /// How its value begins.
        value: String,
        /// The length of its value.
        bytes: usize,
        /// The longest one that would do.
        limit: usize,
    },
    /// A field stands twice, and nobody knows which is meant.
    #[error("policy field {field} is given twice, the second time as {value}: give it once")]
    Duplicate {
        /// The field.
        field: String,
        /// Its second value.
        value: String,
    },
    /// A bound is lower than makes sense.
    #[error("policy field {field} = {value} is below the floor: set it to {floor} or more, or to null for off")]
    BelowFloor {
        /// The field.
        field: String,
        /// Its value.
        value: u64,
        /// The smallest number that would do.
        floor: u64,
    },
    /// The field is newer than the store's level.
    #[error(
        "policy field {field} = {value} needs field level {needed} and the store is at {level} (unsupported_policy_field): finish the upgrade to a release that has it, then finalize"
    )]
    Unsupported {
        /// The field.
        field: String,
        /// Its value.
        value: String,
        /// The level that has it.
        needed: u32,
        /// The level of the store.
        level: u32,
    },
}

/// How much of a refused value is shown, in characters.
const SHOWN_CHARACTERS: usize = 64;

impl Fields {
    /// No fields.
    #[must_use]
    pub fn new() -> Fields {
        Fields::default()
    }

    /// With one more field.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: FieldValue) -> Fields {
        self.0.push((name.into(), value));
        self
    }

    /// The fields in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &FieldValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The policy that these fields are.
    ///
    /// # Errors
    /// [`FieldError`]: the first field that is not right.
    pub fn policy(&self, vocabulary: Vocabulary<'_>) -> Result<Policy, FieldError> {
        let mut policy = Policy::default();
        for (place, (name, value)) in self.0.iter().enumerate() {
            let own = OWN.iter().find(|(own, _)| own == name);
            let is_host = vocabulary.host_fields.contains(name);
            let field = || shown(name);
            if own.is_none() && !is_host {
                let known = known(vocabulary);
                return Err(FieldError::Unknown { field: field(), value: shown(&value.to_string()), known });
            }
            if self.0.iter().take(place).any(|(earlier, _)| earlier == name) {
                return Err(FieldError::Duplicate { field: field(), value: shown(&value.to_string()) });
            }
            match own {
                None => drop(policy.host.insert(name.clone(), text(name, value)?)),
                Some((_, needed)) if *needed > vocabulary.level => {
                    let (value, needed, level) = (shown(&value.to_string()), *needed, vocabulary.level);
                    return Err(FieldError::Unsupported { field: field(), value, needed, level });
                }
                Some((own, _)) => *bound_of(&mut policy, own) = bound(name, value)?,
            }
        }
        match policy.segment_max_age_ms {
            Bound::Is(value) if value < SEGMENT_MAX_AGE_MS_MIN => {
                let (field, floor) = (SEGMENT_MAX_AGE_MS.to_owned(), SEGMENT_MAX_AGE_MS_MIN);
                Err(FieldError::BelowFloor { field, value, floor })
            }
            _ => Ok(policy),
        }
    }
}

/// The place of a field of the store in a policy.
fn bound_of<'a>(policy: &'a mut Policy, field: &str) -> &'a mut Bound {
    match field {
        MAX_AGE_MS => &mut policy.max_age_ms,
        MAX_BYTES => &mut policy.max_bytes,
        _ => &mut policy.segment_max_age_ms,
    }
}

fn bound(field: &str, value: &FieldValue) -> Result<Bound, FieldError> {
    match value {
        FieldValue::Off => Ok(Bound::Off),
        FieldValue::Number(number) => Ok(Bound::Is(*number)),
        other => Err(FieldError::NotANumber { field: field.to_owned(), value: shown(&other.to_string()) }),
    }
}

fn text(field: &str, value: &FieldValue) -> Result<Option<String>, FieldError> {
    let field = field.to_owned();
    match value {
        FieldValue::Off => Ok(None),
        FieldValue::Text(text) if text.len() > HOST_VALUE_BYTES_MAX => {
            let (bytes, limit) = (text.len(), HOST_VALUE_BYTES_MAX);
            Err(FieldError::TooLong { field, value: shown(text), bytes, limit })
        }
        FieldValue::Text(text) if !text.is_empty() => Ok(Some(text.clone())),
        other => Err(FieldError::NotAText { field, value: shown(&other.to_string()) }),
    }
}

/// What a refusal shows of a name or a value, which may be of any length.
fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARACTERS).collect()
}

/// The fields that a store takes now, for whoever named another.
fn known(vocabulary: Vocabulary<'_>) -> String {
    let own = OWN.iter().filter(|(_, level)| *level <= vocabulary.level).map(|(name, _)| *name);
    own.chain(vocabulary.host_fields.iter().map(String::as_str)).collect::<Vec<_>>().join(", ")
}

impl From<Policy> for Fields {
    fn from(policy: Policy) -> Fields {
        Fields::from(&policy)
    }
}

impl From<&Policy> for Fields {
    fn from(policy: &Policy) -> Fields {
        let own = [
            (MAX_AGE_MS, policy.max_age_ms),
            (MAX_BYTES, policy.max_bytes),
            (SEGMENT_MAX_AGE_MS, policy.segment_max_age_ms),
        ];
        let own = own.into_iter().filter_map(|(name, bound)| match bound {
            Bound::Inherit => None,
            Bound::Off => Some((name.to_owned(), FieldValue::Off)),
            Bound::Is(number) => Some((name.to_owned(), FieldValue::Number(number))),
        });
        let host = policy.host.iter().map(|(name, value)| {
            (name.clone(), value.as_ref().map_or(FieldValue::Off, |text| FieldValue::Text(text.clone())))
        });
        Fields(own.chain(host).collect())
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Serialize for FieldValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            FieldValue::Off => serializer.serialize_none(),
            FieldValue::Number(number) => serializer.serialize_u64(*number),
            FieldValue::Text(text) | FieldValue::Other(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

/// Keeps what a map of the standard library would lose: which names came twice.
struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of policy fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Fields::new();
        while let Some(entry) = map.next_entry()? {
            fields.0.push(entry);
        }
        Ok(fields)
    }
}

impl<'de> Deserialize<'de> for FieldValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FieldValue, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

/// Takes any value, so that a wrong one is refused with the name of its field.
struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = FieldValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, a text or null")
    }

    fn visit_u64<E>(self, number: u64) -> Result<FieldValue, E> {
        Ok(FieldValue::Number(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<FieldValue, E> {
        Ok(u64::try_from(number).map_or_else(|_| FieldValue::Other(number.to_string()), FieldValue::Number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<FieldValue, E> {
        Ok(FieldValue::Other(format!("{number:?}")))
    }

    fn visit_bool<E>(self, value: bool) -> Result<FieldValue, E> {
        Ok(FieldValue::Other(value.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<FieldValue, E> {
        Ok(FieldValue::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<FieldValue, E> {
        Ok(FieldValue::Text(text))
    }

    fn visit_unit<E>(self) -> Result<FieldValue, E> {
        Ok(FieldValue::Off)
    }

    fn visit_none<E>(self) -> Result<FieldValue, E> {
        Ok(FieldValue::Off)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<FieldValue, D::Error> {
        FieldValue::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<FieldValue, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(FieldValue::Other("a list".to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FieldValue, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(FieldValue::Other("a map".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse_at(level: u32, json: &str) -> Result<Policy, FieldError> {
        let fields: Fields = serde_json::from_str(json).expect("a map");
        fields.policy(Vocabulary { host_fields: &["spread_by".to_owned()], level })
    }

    fn parse(json: &str) -> Result<Policy, FieldError> {
        parse_at(1, json)
    }

    #[test]
    fn absent_null_and_zero_are_three_different_things() {
        let policy = parse(r#"{"retention.max_age_ms": 0, "retention.max_bytes": null, "spread_by": "rack"}"#);
        let policy = policy.expect("good fields");
        assert_eq!(policy.max_age_ms, Bound::Is(0));
        assert_eq!(policy.max_bytes, Bound::Off);
        assert_eq!(policy.segment_max_age_ms, Bound::Inherit);
        assert_eq!(policy.host["spread_by"].as_deref(), Some("rack"));
        assert_eq!(parse("{}"), Ok(Policy::default()));
        let off = parse(r#"{"spread_by": null}"#).expect("off");
        assert_eq!(off.host.get("spread_by"), Some(&None));
    }

    #[test]
    fn numbers_go_to_the_end_of_their_range_and_not_past_it() {
        let largest = parse(r#"{"retention.max_bytes": 18446744073709551615}"#).expect("2^64-1");
        assert_eq!(largest.max_bytes, Bound::Is(u64::MAX));
        let past = parse(r#"{"retention.max_bytes": 18446744073709551616}"#);
        assert!(matches!(past, Err(FieldError::NotANumber { .. })), "{past:?}");
    }

    #[test]
    fn what_is_no_number_is_refused_with_the_field_and_the_value() {
        for value in [r#""10GB""#, r#""600_000""#, "-1", "1.5", "true", "[1]", r#"{"a": 1}"#, r#""""#] {
            let refused = parse(&format!(r#"{{"retention.max_bytes": {value}}}"#)).expect_err(value);
            assert!(matches!(refused, FieldError::NotANumber { .. }), "{value}: {refused}");
            assert!(refused.to_string().contains("retention.max_bytes"), "{refused}");
        }
        let refused = parse(r#"{"retention.max_age_ms": -60000}"#).expect_err("a negative number");
        assert!(refused.to_string().contains("-60000"), "{refused}");
    }

    #[test]
    fn what_is_no_text_is_refused_with_the_field_and_the_value() {
        for value in ["1", r#""""#, "false", "[]"] {
            let refused = parse(&format!(r#"{{"spread_by": {value}}}"#)).expect_err(value);
            assert!(matches!(refused, FieldError::NotAText { .. }), "{value}: {refused}");
        }
        let text = |bytes: usize| parse(&format!(r#"{{"spread_by": "{}"}}"#, "x".repeat(bytes)));
        assert!(text(HOST_VALUE_BYTES_MAX).is_ok());
        let refused = text(HOST_VALUE_BYTES_MAX + 1).expect_err("one past the limit");
        assert!(matches!(refused, FieldError::TooLong { bytes: 256, limit: 255, .. }), "{refused}");
    }

    #[test]
    fn a_field_that_nobody_knows_or_that_stands_twice_is_refused_by_name() {
        let refused = parse(r#"{"retention.max_age": 1}"#).expect_err("a name that is almost right");
        assert!(matches!(&refused, FieldError::Unknown { field, .. } if field == "retention.max_age"), "{refused}");
        assert!(refused.to_string().contains("retention.max_age_ms"), "{refused}");
        let refused = parse(r#"{"retention.max_bytes": 1, "retention.max_bytes": 1}"#).expect_err("given twice");
        assert!(matches!(&refused, FieldError::Duplicate { field, .. } if field == "retention.max_bytes"));
        let long = parse(&format!(r#"{{"{}": 1}}"#, "x".repeat(10_000))).expect_err("nobody knows it");
        assert!(long.to_string().len() < 400, "a refusal stays short");
    }

    #[test]
    fn the_roll_age_is_taken_at_its_floor_and_refused_below_it() {
        let age = |ms: u64| parse(&format!(r#"{{"retention.segment_max_age_ms": {ms}}}"#));
        assert_eq!(age(60_000).expect("the floor").segment_max_age_ms, Bound::Is(60_000));
        let refused = age(59_999).expect_err("below it");
        let field = "retention.segment_max_age_ms".to_owned();
        assert_eq!(refused, FieldError::BelowFloor { field, value: 59_999, floor: 60_000 });
        assert_eq!(parse(r#"{"retention.segment_max_age_ms": null}"#).map(|p| p.segment_max_age_ms), Ok(Bound::Off));
    }

    #[test]
    fn a_field_of_a_later_level_is_refused_until_the_upgrade_is_finished() {
        for (field, needed) in OWN {
            let refused = parse_at(needed - 1, &format!(r#"{{"{field}": null}}"#)).expect_err(field);
            assert!(matches!(refused, FieldError::Unsupported { .. }), "{refused}");
            assert!(refused.to_string().contains("finish the upgrade"), "{refused}");
        }
    }

    proptest! {
        #[test]
        fn a_policy_is_the_same_after_a_trip_over_the_wire(
            numbers in prop::array::uniform3(prop_oneof![Just(Bound::Inherit), Just(Bound::Off), any::<u64>().prop_map(Bound::Is)]),
            host in prop::option::of(prop::option::of("[^\u{0}]{1,60}")),
        ) {
            let [max_age_ms, max_bytes, mut segment_max_age_ms] = numbers;
            if let Bound::Is(age) = &mut segment_max_age_ms {
                *age = (*age).max(SEGMENT_MAX_AGE_MS_MIN);
            }
            let host = host.map(|value| ("spread_by".to_owned(), value)).into_iter().collect();
            let policy = Policy { max_age_ms, max_bytes, segment_max_age_ms, host };
            let json = serde_json::to_string(&Fields::from(&policy)).expect("json");
            prop_assert_eq!(parse(&json), Ok(policy), "{}", json);
        }
    }
}
