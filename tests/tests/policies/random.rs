//! Random changes against a plain model, with crashes between them: every answer is the model's, and so is every picture.

use crate::desk::{Desk, age, bind, define, delete, topic, unbind};
use std::collections::BTreeMap;
use strandline::{Bound, Policies, PolicyChange};
use strandline_disk::sim::{Loss, SimWorld};
use strandline_tests::harness::Random;
use strandline_tests::harness::seeds::for_each_seed;

const TOPICS: [&str; 3] = ["a", "b", "c"];
const NAMES: [&str; 4] = ["p", "q", "r", "nobody"];

/// What a store must say: the rules once more, in the plainest way.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    topics: Vec<String>,
    ages: BTreeMap<String, u64>,
    bound: BTreeMap<String, String>,
    global: Option<u64>,
}

impl Model {
    /// Does a change, or says why not.
    fn change(&mut self, change: &PolicyChange) -> Result<(), &'static str> {
        let text = |topic: &strandline::Topic| String::from_utf8_lossy(topic.as_bytes()).into_owned();
        match change {
            PolicyChange::Define { name, fields } => drop(self.ages.insert(name.clone(), age_of(fields))),
            PolicyChange::Delete { name, .. } if !self.ages.contains_key(name) => return Err("no_such_policy"),
            PolicyChange::Delete { name, forced: false } if self.bound.values().any(|bound| bound == name) => {
                return Err("policy_in_use");
            }
            PolicyChange::Delete { name, .. } => drop(self.ages.remove(name)),
            PolicyChange::Bind { name, .. } if !self.ages.contains_key(name) => return Err("no_such_policy"),
            PolicyChange::Bind { topic, .. } if !self.topics.contains(&text(topic)) => return Err("no_such_topic"),
            PolicyChange::Bind { topic, name } => drop(self.bound.insert(text(topic), name.clone())),
            PolicyChange::Unbind { topic } => drop(self.bound.remove(&text(topic))),
            PolicyChange::SetGlobal { fields } => self.global = Some(age_of(fields)),
            PolicyChange::Finalize { .. } => {}
        }
        Ok(())
    }

    fn of(policies: &Policies, topics: &[String]) -> Model {
        let number = |bound: Bound| match bound {
            Bound::Is(number) => Some(number),
            _ => None,
        };
        let ages = policies
            .definitions
            .iter()
            .filter_map(|(name, policy)| number(policy.max_age_ms).map(|age| (name.as_str().to_owned(), age)));
        let bound = policies
            .bindings
            .iter()
            .map(|(topic, name)| (String::from_utf8_lossy(topic.as_bytes()).into_owned(), name.as_str().to_owned()));
        let (ages, bound) = (ages.collect(), bound.collect());
        Model { topics: topics.to_vec(), ages, bound, global: number(policies.global.max_age_ms) }
    }
}

fn age_of(fields: &strandline::Fields) -> u64 {
    match fields.iter().next() {
        Some((_, strandline::policy::FieldValue::Number(number))) => *number,
        other => panic!("{other:?}"),
    }
}

fn any_change(random: &mut Random) -> PolicyChange {
    let (name, of, number) = (random.pick(&NAMES), random.pick(&TOPICS), random.below(1_000) as u64);
    match random.below(9) {
        0 | 1 if name != "nobody" => define(name, age(number)),
        0..=4 => bind(of, name),
        5 => unbind(of),
        6 => PolicyChange::SetGlobal { fields: age(number) },
        7 => delete(name, true),
        _ => delete(name, false),
    }
}

#[test]
fn random_changes_are_answered_and_kept_as_a_plain_model_says() {
    for_each_seed(40, |seed| {
        let mut random = Random::new(seed);
        let (mut desk, mut model) = (Desk::new(seed), Model::default());
        for _ in 0..60 {
            match random.below(12) {
                0 => {
                    let name = random.pick(&TOPICS);
                    desk.log(name, 0).expect("a log");
                    if !model.topics.iter().any(|topic| topic == name) {
                        model.topics.push(name.to_owned());
                    }
                }
                1 => {
                    let name = random.pick(&TOPICS);
                    if model.topics.iter().any(|topic| topic == name) {
                        let log = desk.log(name, 0).expect("a log");
                        desk.delete_log(log).expect("deleted");
                        model.topics.retain(|topic| topic != name);
                        model.bound.remove(name);
                    }
                }
                2 => desk = crash(desk, &mut random, &mut model),
                _ => {
                    let change = any_change(&mut random);
                    let answer = desk.ask(change.clone()).map(drop).map_err(|error| error.code());
                    assert_eq!(answer, model.change(&change), "seed {seed}: {change:?}");
                }
            }
            assert_eq!(Model::of(&desk.read(), &model.topics), model, "seed {seed}");
        }
        for name in TOPICS {
            let said = desk.read().get(&topic(name));
            assert_eq!(said.policy.map(|name| name.as_str().to_owned()), model.bound.get(name).cloned());
        }
        Ok(())
    });
}

/// Crashes, mostly with a change under way, which is then done or not.
fn crash(mut desk: Desk, random: &mut Random, model: &mut Model) -> Desk {
    let change = any_change(random);
    let pending = desk.begin(change.clone());
    for _ in 0..random.below(8) {
        desk.shard.turn().expect("the ring works");
    }
    drop(pending);
    let loss = random.pick(&[Loss::DropAll, Loss::KeepAll, Loss::Random]);
    let kill = random.chance(1, 2);
    let desk = desk.after(|world: &SimWorld| if kill { world.kill() } else { world.power_failure(loss) });
    let found = Model::of(&desk.read(), &model.topics);
    if found != *model {
        let _ = model.change(&change);
    }
    desk
}
