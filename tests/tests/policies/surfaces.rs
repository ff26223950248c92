//! The library's surface, on the real ring.

use crate::common::{append, log_of, open, place, small, topic};
use strandline::config::Sabotage;
use strandline::{Bound, Config, Fields, Gate, Offset, Policy, PolicyChange, PolicyError};

fn fields(json: &str) -> Fields {
    serde_json::from_str(json).expect("a map")
}

/// A pass reads the policies once: what was lowered while it decides counts for the next one, and no later.
#[test]
fn rt_12_a_lowered_retention_is_what_the_next_pass_reads() {
    let place = place();
    let store = open(small(place.path()));
    append(&log_of(&store, "clicks"), b"one");
    let policies = store.policies();
    policies.define("short", fields(r#"{"retention.max_age_ms": 3600000}"#), "ops").expect("defined");
    policies.bind(&topic("clicks"), "short", "ops").expect("bound");
    let pass = policies.list().expect("one picture");
    let changed = policies.define("short", fields(r#"{"retention.max_age_ms": 60000}"#), "ops").expect("lowered");
    assert_eq!(changed.unaudited, None);
    assert_eq!(pass.get(&topic("clicks")).fields.max_age_ms, Bound::Is(3_600_000), "one reading for a whole pass");
    let next = policies.list().expect("the next picture");
    assert_eq!(next.get(&topic("clicks")).fields.max_age_ms, Bound::Is(60_000), "no write per topic");
}

/// There is one place for what a topic keeps: its one policy, and the global values where that does not say. Both are shown.
#[test]
fn rt_14_a_topic_has_one_policy_and_the_global_values_stand_beside_it() {
    let place = place();
    let store = open(small(place.path()));
    log_of(&store, "clicks");
    let (policies, clicks) = (store.policies(), topic("clicks"));
    let global = fields(r#"{"retention.max_age_ms": 1, "retention.max_bytes": 2, "spread_by": "rack"}"#);
    policies.set_global(global, "ops").expect("set");
    let alone = policies.get(&clicks).expect("read");
    assert_eq!((alone.policy, alone.undefined, alone.fields), (None, false, Policy::default()));
    policies.define("a", fields(r#"{"retention.max_age_ms": null}"#), "ops").expect("defined");
    policies.define("b", fields(r#"{"retention.max_bytes": 0}"#), "ops").expect("defined");
    policies.bind(&clicks, "a", "ops").expect("bound");
    policies.bind(&clicks, "b", "ops").expect("bound instead");
    store.close().expect("a clean close");
    let store = open(small(place.path()));
    let said = store.policies().get(&clicks).expect("read");
    assert_eq!(said.policy.as_ref().map(|name| name.as_str()), Some("b"), "the last one, and no mixture");
    let bounds = |policy: &Policy| (policy.max_age_ms, policy.max_bytes, policy.segment_max_age_ms);
    assert_eq!(bounds(&said.fields), (Bound::Inherit, Bound::Is(0), Bound::Inherit));
    assert_eq!(bounds(&said.global), (Bound::Is(1), Bound::Is(2), Bound::Inherit));
    assert_eq!(said.global.host["spread_by"].as_deref(), Some("rack"));
}

#[test]
fn every_verb_of_the_desk_works_over_several_shards() {
    let place = place();
    let store = open(Config { shards: 2, ..small(place.path()) });
    let names = ["a", "b", "c", "d"].map(topic);
    names.iter().for_each(|topic| drop(store.create_topic(topic, 3).expect("a topic")));
    let policies = store.policies();
    policies.finalize(Gate::Bindings, "ops").expect("it is at its levels");
    policies.define("short", &Policy { max_bytes: Bound::Is(9), ..Policy::default() }, "ops").expect("defined");
    names.iter().for_each(|topic| drop(policies.bind(topic, "short", "ops").expect("bound")));
    let used = policies.delete("short", false, "ops").expect_err("it is bound");
    assert!(matches!(&used, PolicyError::InUse { topics, .. } if topics[..] == names), "{used}");
    store.delete_topic(&names[0]).expect("deleted");
    policies.unbind(&names[1], "ops").expect("unbound");
    assert_eq!(policies.list().expect("read").bindings.keys().cloned().collect::<Vec<_>>(), names[2..]);
    policies.delete("short", true, "ops").expect("forced");
    assert!(policies.get(&names[2]).expect("read").undefined);
    let strays = {
        store.close().expect("a clean close");
        open(small(place.path())).report().strays.clone()
    };
    assert_eq!(strays, [""; 0], "the audit log is no stray");
}

#[test]
fn a_store_with_too_much_in_hand_and_one_that_is_closed_refuse_changes() {
    let busy = place();
    let store = open(Config { outstanding_max: 1, ..small(busy.path()) });
    let change = || PolicyChange::Define { name: "short".to_owned(), fields: Fields::new() };
    let asked: Vec<_> = (0..50).map(|_| store.policies().change(change(), "ops")).collect();
    let answers: Vec<_> = asked.into_iter().map(strandline::Pending::wait).collect();
    let refused = answers.iter().filter(|answer| matches!(answer, Err(PolicyError::Overloaded { limit: 1, .. })));
    assert!(refused.count() > 0 && answers.iter().any(Result::is_ok), "{answers:?}");

    let other = place();
    let store = open(Config { sabotage: Some(Sabotage::PanicOnRead), ..small(other.path()) });
    let log = log_of(&store, "t");
    drop(log.read(Offset(0), 1).wait());
    let refused = (0..100).find_map(|_| match store.policies().change(change(), "ops").wait() {
        Err(PolicyError::ShardGone) => None, // It is just going.
        other => Some(other),
    });
    assert_eq!(refused, Some(Err(PolicyError::Closed)));
}
