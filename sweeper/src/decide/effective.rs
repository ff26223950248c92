//! What applies to a topic: the one function that the sweep, the read-back and `explain` share, so that what an operator is told is
//! what the data sees.

use std::collections::BTreeMap;
use std::fmt;
use strandline::Topic;
use strandline::policy::{Bound, Policy, PolicyName};

/// Definitions by name.
pub type Policies = BTreeMap<PolicyName, Policy>;

/// The store's own values, for what a topic's policy does not set. `None` is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Global {
    /// How long a sealed segment is kept, in milliseconds.
    pub max_age_ms: Option<u64>,
    /// How many sealed bytes a range keeps.
    pub max_bytes: Option<u64>,
    /// At which age a segment is rolled, in milliseconds.
    pub segment_max_age_ms: Option<u64>,
}

impl Default for Global {
    /// Nothing expires, and a segment is rolled after 7 days.
    fn default() -> Global {
        Global { max_age_ms: None, max_bytes: None, segment_max_age_ms: Some(7 * 24 * 60 * 60 * 1000) }
    }
}

/// How a topic's policy name resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// The topic names no policy.
    None,
    /// The name is defined.
    Resolved,
    /// Nothing defines the name: the topic holds its data.
    Unresolved,
}

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The topic's policy.
    Policy,
    /// The store's own value.
    Global,
    /// What the operator set for topics whose policy is undefined; off unless he did.
    UnresolvedBackstop,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::Policy => "policy",
            Origin::Global => "global",
            Origin::UnresolvedBackstop => "unresolved_backstop",
        })
    }
}

/// One bound in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Setting {
    /// Its value; `None` is off. 0 is a real budget.
    pub value: Option<u64>,
    /// Who set it.
    pub origin: Origin,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Some(value) => write!(f, "{value} ({})", self.origin),
            None => write!(f, "off ({})", self.origin),
        }
    }
}

/// How a topic is cleaned. Policies have no field for it yet: whoever knows sets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cleanup {
    /// Old segments expire.
    #[default]
    Delete,
    /// Old values of a key go. Nothing expires: the newest value of a key may be the oldest record of the log.
    Compact,
    /// Both.
    CompactDelete,
}

/// What applies to a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effective {
    /// How its policy name resolved.
    pub resolution: Resolution,
    /// How long a sealed segment is kept, in milliseconds.
    pub max_age_ms: Setting,
    /// How many sealed bytes a range keeps.
    pub max_bytes: Setting,
    /// At which age a segment is rolled, in milliseconds.
    pub segment_max_age_ms: Setting,
    /// How it is cleaned.
    pub cleanup: Cleanup,
}

impl Effective {
    /// The same with another way of cleaning.
    #[must_use]
    pub fn cleaned(self, cleanup: Cleanup) -> Effective {
        Effective { cleanup, ..self }
    }
}

/// What applies to a topic bound to the policy `name`.
///
/// A name that nothing defines never falls back to the store's own values: it exists because somebody wanted something else than
/// those, and mostly that is to keep data longer. Nothing expires then but by `backstop_max_age_ms`, and nothing rolls by age.
#[must_use]
pub fn effective(
    name: Option<&str>,
    policies: &Policies,
    global: &Global,
    backstop_max_age_ms: Option<u64>,
) -> Effective {
    let Some(name) = name else { return merged(Resolution::None, &Policy::default(), global) };
    match policies.get(name) {
        Some(policy) => merged(Resolution::Resolved, policy, global),
        None => unresolved(backstop_max_age_ms),
    }
}

fn merged(resolution: Resolution, policy: &Policy, global: &Global) -> Effective {
    let setting = |bound: Bound, global: Option<u64>| match bound {
        Bound::Inherit => Setting { value: global, origin: Origin::Global },
        Bound::Off => Setting { value: None, origin: Origin::Policy },
        Bound::Is(value) => Setting { value: Some(value), origin: Origin::Policy },
    };
    Effective {
        resolution,
        max_age_ms: setting(policy.max_age_ms, global.max_age_ms),
        max_bytes: setting(policy.max_bytes, global.max_bytes),
        segment_max_age_ms: setting(policy.segment_max_age_ms, global.segment_max_age_ms),
        cleanup: Cleanup::Delete,
    }
}

fn unresolved(backstop_max_age_ms: Option<u64>) -> Effective {
    let setting = |value| Setting { value, origin: Origin::UnresolvedBackstop };
    Effective {
        resolution: Resolution::Unresolved,
        max_age_ms: setting(backstop_max_age_ms),
        max_bytes: setting(None),
        segment_max_age_ms: setting(None),
        cleanup: Cleanup::Delete,
    }
}

/// The topics that are bound to a name nothing defines, sorted. They hold their data, which nobody sees unless he is told.
#[must_use]
pub fn unresolved_policies<'a>(
    bindings: impl IntoIterator<Item = (&'a Topic, &'a str)>,
    policies: &Policies,
) -> Vec<&'a Topic> {
    let undefined = bindings.into_iter().filter(|(_, name)| !policies.contains_key(*name));
    let mut topics: Vec<&Topic> = undefined.map(|(topic, _)| topic).collect();
    topics.sort();
    topics
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bound() -> impl Strategy<Value = Bound> {
        prop_oneof![Just(Bound::Inherit), Just(Bound::Off), Just(Bound::Is(0)), any::<u64>().prop_map(Bound::Is)]
    }

    fn global() -> impl Strategy<Value = Global> {
        let value = || prop::option::of(any::<u64>());
        (value(), value(), value()).prop_map(|(max_age_ms, max_bytes, segment_max_age_ms)| Global {
            max_age_ms,
            max_bytes,
            segment_max_age_ms,
        })
    }

    fn policy() -> impl Strategy<Value = Policy> {
        (bound(), bound(), bound()).prop_map(|(max_age_ms, max_bytes, segment_max_age_ms)| Policy {
            max_age_ms,
            max_bytes,
            segment_max_age_ms,
            ..Policy::default()
        })
    }

    fn name_of(name: &str) -> PolicyName {
        PolicyName::new(name).expect("a name")
    }

    fn policies() -> impl Strategy<Value = Policies> {
        prop::collection::btree_map("[a-z]{1,3}".prop_map(|name| name_of(&name)), policy(), 0..4)
    }

    /// The table of the seed's guide, written out once more and in another way.
    fn expected(bound: Bound, global: Option<u64>) -> (Option<u64>, Origin) {
        if bound == Bound::Inherit {
            return (global, Origin::Global);
        }
        let value = if let Bound::Is(value) = bound { Some(value) } else { None };
        (value, Origin::Policy)
    }

    #[test]
    fn a_setting_prints_its_value_and_who_set_it() {
        let shown = |value, origin| Setting { value, origin }.to_string();
        assert_eq!(shown(Some(3_600_000), Origin::Policy), "3600000 (policy)");
        assert_eq!(shown(None, Origin::Global), "off (global)");
        assert_eq!(shown(Some(0), Origin::UnresolvedBackstop), "0 (unresolved_backstop)");
    }

    #[test]
    fn unless_told_otherwise_nothing_expires_and_segments_roll_after_a_week() {
        let effective = effective(None, &Policies::new(), &Global::default(), Some(5));
        assert_eq!(effective.max_age_ms, Setting { value: None, origin: Origin::Global });
        assert_eq!(effective.max_bytes, Setting { value: None, origin: Origin::Global });
        assert_eq!(effective.segment_max_age_ms.value, Some(604_800_000));
    }

    #[test]
    fn topics_of_undefined_policies_are_listed_in_order_however_many_there_are() {
        let topics: Vec<Topic> =
            (0..100).map(|number| Topic::new(format!("{}", number * 7 % 100)).expect("short")).collect();
        let policies = Policies::from([(name_of("there"), Policy::default())]);
        let name = |at: usize| if at.is_multiple_of(3) { "there" } else { "gone" };
        let found = unresolved_policies(topics.iter().enumerate().map(|(at, topic)| (topic, name(at))), &policies);
        assert_eq!(found.len(), 66);
        assert!(found.is_sorted());
        assert!(!found.contains(&&topics[0]));
    }

    proptest! {
        #[test]
        fn an_undefined_name_never_falls_back_to_the_global_values(
            name in "[a-z]{1,3}", mut policies in policies(),
            global in global(), backstop in prop::option::of(any::<u64>()),
        ) {
            policies.remove(name.as_str());
            let found = effective(Some(&name), &policies, &global, backstop);
            prop_assert_eq!(found.resolution, Resolution::Unresolved);
            prop_assert_eq!(found.max_age_ms, Setting { value: backstop, origin: Origin::UnresolvedBackstop });
            prop_assert_eq!(found.max_bytes.value, None);
            prop_assert_eq!(found.segment_max_age_ms.value, None);
        }

        #[test]
        fn the_three_states_of_a_field_are_always_kept_apart(
            policy in policy(), global in global(), backstop in prop::option::of(any::<u64>()),
        ) {
            let policies = Policies::from([(name_of("short"), policy.clone())]);
            let found = effective(Some("short"), &policies, &global, backstop);
            prop_assert_eq!(found.resolution, Resolution::Resolved);
            for (found, bound, global) in [
                (found.max_age_ms, policy.max_age_ms, global.max_age_ms),
                (found.max_bytes, policy.max_bytes, global.max_bytes),
                (found.segment_max_age_ms, policy.segment_max_age_ms, global.segment_max_age_ms),
            ] {
                prop_assert_eq!((found.value, found.origin), expected(bound, global));
            }
        }

        #[test]
        fn without_a_name_exactly_the_global_values_apply(
            policies in policies(), global in global(),
            backstop in prop::option::of(any::<u64>()),
        ) {
            let found = effective(None, &policies, &global, backstop);
            prop_assert_eq!(found.resolution, Resolution::None);
            let settings = [found.max_age_ms, found.max_bytes, found.segment_max_age_ms];
            prop_assert!(settings.iter().all(|setting| setting.origin == Origin::Global));
            let values = settings.map(|setting| setting.value);
            prop_assert_eq!(values, [global.max_age_ms, global.max_bytes, global.segment_max_age_ms]);
        }
    }
}
