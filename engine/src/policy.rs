//! Policy: how long the logs of a topic are kept, as named definitions that many topics share. Plain data; what follows from it is
//! decided by the sweeper.

mod fields;
mod named;

pub use fields::{
    FieldError, FieldValue, Fields, HOST_FIELD_BYTES_MAX, HOST_FIELDS_MAX, HOST_VALUE_BYTES_MAX,
    SEGMENT_MAX_AGE_MS_MIN, Vocabulary, is_own_field,
};
pub use named::{
    BINDING_LEVEL, FIELD_LEVEL, Gate, Levels, POLICIES_MAX, POLICY_NAME_BYTES_MAX, Policies, PolicyName,
    PolicyNameError, TopicPolicy,
};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One field of a policy. The three states are kept apart everywhere: a number, 0 included, is a real budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Bound {
    /// The policy does not say: the global value applies.
    #[default]
    Inherit,
    /// This rule does not apply, whatever the global value says.
    Off,
    /// So much.
    Is(u64),
}

/// What a policy says. Fields that it does not set are inherited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// A sealed segment expires when it was sealed longer ago than this, in milliseconds.
    pub max_age_ms: Bound,
    /// The oldest sealed segments of a range expire while the sealed bytes of the range are more than this.
    pub max_bytes: Bound,
    /// A segment is rolled at this age, in milliseconds; 60,000 at least.
    pub segment_max_age_ms: Bound,
    /// Fields of the host, which the store keeps and reports and does not read. `None` is off.
    pub host: BTreeMap<String, Option<String>>,
}
