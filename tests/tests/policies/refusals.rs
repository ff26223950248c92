//! Refusals: each with its reason, none changes anything, and all of them are in the audit log.

use crate::desk::{Desk, age, bind, define, delete, make_old, small, topic, unbind};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use strandline::id::SegmentId;
use strandline::pending::Answer;
use strandline::policy::{FieldError, FieldValue, PolicyName, PolicyNameError};
use strandline::{
    BindingsUnavailable, Config, Fields, Gate, Host, HostBindings, PolicyChange, PolicyError, Refusal, SharedHost,
};
use strandline_disk::sim::{Loss, SimWorld, Times, When};
use strandline_disk::{Errno, Verb};

fn name(text: &str) -> PolicyName {
    PolicyName::new(text).expect("a name")
}

#[test]
fn refusals_say_why_change_nothing_and_are_audited_beside_what_was_done() {
    let mut desk = Desk::new(1);
    desk.log("t", 0).expect("a log");
    let empty = desk.refused(define("", age(1)));
    assert_eq!(empty, PolicyError::Name(PolicyNameError::Empty));
    let unit = Fields::new().with("retention.max_bytes", FieldValue::Text("10GB".to_owned()));
    let unit = desk.refused(define("short", unit));
    assert!(matches!(unit, PolicyError::Field(FieldError::NotANumber { .. })), "{unit}");
    let later = Fields::new().with("cleanup", FieldValue::Text("compact".to_owned()));
    let later = desk.refused(define("short", later));
    assert_eq!(later.code(), "unsupported_policy_field");
    assert!(later.to_string().contains("finish the upgrade"), "{later}");
    assert_eq!(desk.refused(bind("t", "short")), PolicyError::NoSuchPolicy { name: name("short") });
    assert_eq!(desk.refused(delete("short", true)), PolicyError::NoSuchPolicy { name: name("short") });
    desk.done(define("short", age(1)));
    assert_eq!(desk.refused(bind("nowhere", "short")), PolicyError::NoSuchTopic { topic: topic("nowhere") });
    desk.done(bind("t", "short"));
    let used = desk.refused(delete("short", false));
    assert_eq!(used, PolicyError::InUse { name: name("short"), topics: vec![topic("t")] });
    assert!(used.to_string().starts_with("policy_in_use: t "), "{used}");
    desk.done(delete("short", true));
    assert!(desk.read().get(&topic("t")).undefined, "the topic holds its data");
    desk.done(unbind("t"));
    let desk = desk.after(|world| world.power_failure(Loss::DropAll));
    let said = |event: &str, outcome: &str, code: Option<&str>| {
        (event.to_owned(), outcome.to_owned(), code.map(str::to_owned))
    };
    let expected = [
        said("policy_defined", "refused", Some("bad_policy_name")),
        said("policy_defined", "refused", Some("bad_policy_field")),
        said("policy_defined", "refused", Some("unsupported_policy_field")),
        said("topic_policy_bound", "refused", Some("no_such_policy")),
        said("policy_deleted", "refused", Some("no_such_policy")),
        said("policy_defined", "done", None),
        said("topic_policy_bound", "refused", Some("no_such_topic")),
        said("topic_policy_bound", "done", None),
        said("policy_deleted", "refused", Some("policy_in_use")),
        said("policy_deleted", "done", None),
        said("topic_policy_unbound", "done", None),
    ];
    assert_eq!(desk.audited(), expected);
}

#[test]
fn a_store_of_an_older_release_takes_no_policy_until_its_upgrade_is_finished() {
    let mut desk = Desk::new(2).after(|world: &SimWorld| {
        world.kill();
        world.land_strays();
        make_old(world);
    });
    desk.log("t", 0).expect("a log");
    let manifests = |desk: &Desk| desk.world.read_file("manifest/a");
    let before = manifests(&desk);
    let fields = age(1);
    let closed = [define("short", age(1)), PolicyChange::SetGlobal { fields }, bind("t", "short")];
    for change in closed {
        let refused = desk.refused(change);
        assert!(matches!(refused, PolicyError::NotFinalized { level: 0, needed: 1, .. }), "{refused}");
        assert!(refused.to_string().contains("finish the upgrade"), "{refused}");
    }
    assert_eq!(manifests(&desk), before, "nothing that an older release could not read");
    desk.done(PolicyChange::Finalize { gate: Gate::Definitions });
    desk.done(define("short", age(1)));
    let refused = desk.refused(bind("t", "short"));
    assert!(matches!(refused, PolicyError::NotFinalized { what: "binding a topic to a policy", .. }), "{refused}");
    desk.done(PolicyChange::Finalize { gate: Gate::Bindings });
    desk.done(bind("t", "short"));
    desk.done(PolicyChange::Finalize { gate: Gate::Definitions });
    desk.done(bind("t", "short"));
}

#[test]
fn a_topic_that_is_deleted_takes_its_binding_along() {
    let mut desk = Desk::new(3);
    let logs = [desk.log("t", 0).expect("a log"), desk.log("t", 1).expect("a log")];
    desk.done(define("short", age(1)));
    desk.done(bind("t", "short"));
    desk.delete_log(logs[0]).expect("deleted");
    assert!(desk.read().bindings.contains_key(&topic("t")), "it has a range");
    desk.delete_log(logs[1]).expect("deleted");
    assert!(desk.read().bindings.is_empty(), "as soon as that is answered");
    desk.done(delete("short", false));
    let mut desk = desk.after(|world| world.power_failure(Loss::DropAll));
    desk.log("t", 0).expect("a log");
    assert!(desk.read().bindings.is_empty());
}

#[test]
fn more_policies_than_there_may_be_and_more_than_the_manifest_holds_are_refused() {
    let mut desk = Desk::open(SimWorld::new(4), Config { manifest_bytes: 1 << 20, ..small() }).expect("an open store");
    let mut answers: Vec<_> = Vec::new();
    for n in 0..=strandline::policy::POLICIES_MAX {
        answers.push(desk.ask(define(&format!("p{n}"), age(1))).map(drop));
    }
    let last = answers.pop().expect("one past the limit");
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(last, Err(PolicyError::TooManyPolicies { limit: strandline::policy::POLICIES_MAX }));
    desk.done(define("p0", age(2)));

    let mut desk = Desk::new(5);
    let large = |n: usize| define(&format!("{n:0200}"), age(1).with("spread_by", FieldValue::Text("x".repeat(255))));
    let full = (0..1_000).find_map(|n| desk.ask(large(n)).err()).expect("64 KiB hold fewer");
    assert!(matches!(full, PolicyError::Manifest(strandline::manifest::ManifestError::Full { .. })), "{full}");
    desk.done(delete(&format!("{:0200}", 0), false));
    desk.done(large(0));
    let held = desk.read();
    assert_eq!(desk.after(|world| world.power_failure(Loss::DropAll)).read(), held, "a full manifest opens");
}

#[test]
fn a_manifest_that_cannot_be_written_changes_no_policy() {
    let mut desk = Desk::new(6);
    desk.fail(When::VerbOnPath(Verb::Write, "manifest".to_owned()), Errno::IO, Times::Once);
    let first = desk.refused(define("short", age(1)));
    assert!(matches!(first, PolicyError::Manifest(_)), "{first}");
    let latched = desk.refused(define("short", age(1)));
    assert!(matches!(latched, PolicyError::Manifest(_)), "{latched}");
    assert_eq!(desk.audited().iter().map(|line| line.1.as_str()).collect::<Vec<_>>(), ["unknown", "refused"]);
}

/// A host that keeps the bindings itself, and cannot always say which there are.
#[derive(Default)]
struct Keeper {
    bindings: Mutex<BTreeMap<strandline::Topic, PolicyName>>,
    is_away: AtomicBool,
}

impl Host for Keeper {
    fn register(&self, _: &SegmentId, answer: Answer<Result<(), Refusal>>) {
        answer.give(Ok(()));
    }

    fn bindings(&self, answer: Answer<HostBindings>) {
        if self.is_away.load(Ordering::Relaxed) {
            return answer.give(Err(BindingsUnavailable { reason: "a split is moving topics".to_owned() }));
        }
        let bindings = self.bindings.lock().expect("no panic").clone();
        // As a host answers: from another thread.
        std::thread::spawn(move || answer.give(Ok(Some(bindings)))).join().expect("answered");
    }
}

#[test]
fn bindings_that_the_host_keeps_are_its_own_and_no_policy_is_deleted_while_they_cannot_be_read() {
    let keeper = Arc::new(Keeper::default());
    let config = Config { host: Some(SharedHost(keeper.clone())), ..small() };
    let mut desk = Desk::open(SimWorld::new(7), config).expect("an open store");
    desk.log("t", 0).expect("a log");
    desk.done(define("short", age(1)));
    for change in [bind("t", "short"), unbind("t")] {
        assert_eq!(desk.refused(change), PolicyError::HostKeepsBindings { topic: topic("t") });
    }
    keeper.bindings.lock().expect("no panic").insert(topic("t"), name("short"));
    let used = desk.refused(delete("short", false));
    assert_eq!(used, PolicyError::InUse { name: name("short"), topics: vec![topic("t")] });
    keeper.is_away.store(true, Ordering::Relaxed);
    let away = desk.refused(delete("short", false));
    assert!(matches!(away, PolicyError::BindingsUnavailable(BindingsUnavailable { .. })), "{away}");
    assert!(away.to_string().contains("try again"), "{away}");
    desk.done(delete("short", true));
}
