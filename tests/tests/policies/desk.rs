//! A desk: a simulated machine with a store on it, whose policies are changed by hand.

use std::collections::BTreeMap;
use std::sync::Arc;
use strandline::batch::BatchLimits;
use strandline::config::{CheckedConfig, Config, Sabotage};
use strandline::format::block::StoreIdentity;
use strandline::format::manifest::RegionHeader;
use strandline::manifest::PublishedPolicies;
use strandline::manifest::page::Page;
use strandline::manifest::state::State;
use strandline::pending::{Answer, Pending, Unanswered, pair};
use strandline::policy::FieldValue;
use strandline::shard::command::{AppendAnswer, Command, LogNumber, Queue};
use strandline::shard::policies::{PolicyAnswer, PolicyAsked};
use strandline::shard::verb::Verb;
use strandline::shard::{self, Shard};
use strandline::{
    AppendError, BatchBuilder, Fields, Level, LogId, LogOptions, OpenError, Policies, PolicyChange, PolicyError,
    RangeNumber, Receipt, Record, Topic, VerbError,
};
use strandline_disk::sim::{Fault, SimDisk, SimWorld, Times, What, When, drive};
use strandline_disk::{BLOCK, Disk, Errno};
use strandline_tests::harness::machine;

pub struct Desk {
    pub world: SimWorld,
    pub config: CheckedConfig,
    pub shard: Shard<SimDisk>,
    pub queue: Arc<Queue>,
    published: PublishedPolicies,
}

pub fn small() -> Config {
    Config { audit_bytes: 64 << 10, ..machine::small() }
}

pub fn topic(name: &str) -> Topic {
    Topic::new(name).expect("short")
}

/// Fields with one age.
pub fn age(ms: u64) -> Fields {
    Fields::new().with("retention.max_age_ms", FieldValue::Number(ms))
}

pub fn define(name: &str, fields: Fields) -> PolicyChange {
    PolicyChange::Define { name: name.to_owned(), fields }
}

pub fn bind(of: &str, name: &str) -> PolicyChange {
    PolicyChange::Bind { topic: topic(of), name: name.to_owned() }
}

pub fn unbind(of: &str) -> PolicyChange {
    PolicyChange::Unbind { topic: topic(of) }
}

pub fn delete(name: &str, forced: bool) -> PolicyChange {
    PolicyChange::Delete { name: name.to_owned(), forced }
}

/// Makes the manifest of a store as a release without policies has left it.
pub fn make_old(world: &SimWorld) {
    let block = world.read_file("strandline.id").expect("an identity");
    let store = StoreIdentity::decode(&block).expect("an identity").store;
    for path in ["manifest/a", "manifest/b"] {
        let mut bytes = vec![0; world.read_file(path).expect("a copy").len()];
        let (sequence, region_bytes) = (1, bytes.len() as u64 / 2);
        let start = region_bytes as usize;
        let header = RegionHeader { store, sequence, region_bytes }.encode();
        let page = Page::snapshot(store, sequence, &State::default());
        bytes[start..start + BLOCK].copy_from_slice(&header);
        bytes[start + BLOCK..start + BLOCK + page.bytes.len()].copy_from_slice(&page.bytes);
        world.put_file(path, &bytes);
    }
}

impl Desk {
    /// A desk at a new store.
    pub fn new(seed: u64) -> Desk {
        Desk::open(SimWorld::new(seed), small()).expect("an open store")
    }

    pub fn sabotaged(seed: u64, sabotage: Option<Sabotage>) -> Desk {
        Desk::open(SimWorld::new(seed), Config { sabotage, ..small() }).expect("an open store")
    }

    pub fn open(world: SimWorld, config: Config) -> Result<Desk, OpenError> {
        Desk::on(world, config.check().expect("a configuration"))
    }

    pub fn on(world: SimWorld, config: CheckedConfig) -> Result<Desk, OpenError> {
        world.set_pool_bytes(config.arena_bytes);
        world.land_strays();
        let disk = world.open();
        let queue = Queue::new(&config, disk.doorbell());
        let (shard, _) = drive(&disk, shard::open(disk.clone(), config.clone(), queue.clone()))?;
        let published = shard.policies().expect("it keeps the manifest");
        Ok(Desk { world, config, shard, queue, published })
    }

    /// The process ends, the power is cut, and another process opens the store.
    pub fn after(self, crash: impl FnOnce(&SimWorld)) -> Desk {
        let Desk { world, config, shard, .. } = self;
        drop(shard);
        world.clear_faults();
        crash(&world);
        Desk::on(world, config).expect("the store opens after any crash")
    }

    /// What readers see.
    pub fn read(&self) -> Arc<Policies> {
        self.published.read()
    }

    /// Asks for a change without waiting for it.
    pub fn begin(&self, change: PolicyChange) -> Pending<PolicyAnswer> {
        let (answer, pending) = pair();
        let admitted = self.queue.admit(0).expect("room");
        self.queue.push(Command::Policy(PolicyAsked { change, actor: "tester".to_owned(), answer, admitted }));
        pending
    }

    pub fn ask(&mut self, change: PolicyChange) -> PolicyAnswer {
        let pending = self.begin(change);
        self.turn_until(pending)
    }

    /// Does a change that must be done, and be in the audit log.
    pub fn done(&mut self, change: PolicyChange) {
        let changed = self.ask(change.clone()).unwrap_or_else(|error| panic!("{change:?}: {error}"));
        assert_eq!(changed.unaudited, None, "{change:?}");
    }

    pub fn refused(&mut self, change: PolicyChange) -> PolicyError {
        let before = self.read();
        let error = self.ask(change.clone()).expect_err("a refusal");
        assert_eq!(self.read(), before, "{change:?} was refused and changed something");
        error
    }

    pub fn turn_until<T>(&mut self, mut pending: Pending<T>) -> T {
        for _ in 0..100_000 {
            if let Some(answer) = pending.try_take() {
                return answer;
            }
            self.shard.turn().expect("the ring works");
        }
        panic!("100,000 turns brought no answer")
    }

    pub fn fail(&self, when: When, errno: Errno, times: Times) {
        self.world.inject(Fault { when, what: What::Errno(errno), times });
    }

    fn command<T: Unanswered>(&mut self, command: impl FnOnce(Answer<T>, &Arc<Queue>) -> Command) -> T {
        let (answer, pending) = pair();
        self.queue.push(command(answer, &self.queue));
        self.turn_until(pending)
    }

    /// Makes or opens a range of a topic.
    pub fn log(&mut self, name: &str, range: u32) -> Option<LogNumber> {
        let log = LogId { topic: topic(name), range: RangeNumber::new(range).expect("small") };
        let opened = self.command(|answer, queue| {
            let (options, admitted) = (LogOptions::default(), queue.admit(0).expect("room"));
            Command::OpenLog { log, options, answer, admitted }
        });
        opened.ok().map(|opened| opened.number)
    }

    pub fn begin_append(&self, log: LogNumber, level: Level) -> Pending<AppendAnswer> {
        let mut builder = BatchBuilder::new(BatchLimits { records_max: 10, bytes_max: 1_000 });
        builder.push(&Record { value: Some(b"v"), ..Record::default() }).expect("room");
        let (batch, admitted) = (builder.build().expect("a record"), self.queue.admit(0).expect("room"));
        let (answer, pending) = pair();
        self.queue.push(Command::Append { log, batch, level, expected: None, answer, admitted });
        pending
    }

    pub fn until_durable(&mut self, log: LogNumber, receipt: Receipt) -> Result<(), AppendError> {
        self.command(|answer, queue| {
            let admitted = queue.admit(0).expect("room");
            Command::UntilDurable { log, receipt, now: true, answer, admitted }
        })
    }

    pub fn delete_log(&mut self, log: LogNumber) -> Result<(), VerbError> {
        self.command(|answer, queue| {
            let admitted = queue.admit(0).expect("room");
            Command::Verb { log, verb: Verb::Delete { answer }, admitted }
        })
    }

    /// What the audit log says: event, outcome and code of each line, by their numbers.
    pub fn audited(&self) -> Vec<(String, String, Option<String>)> {
        let mut lines = BTreeMap::new();
        for number in 0..4 {
            let content = self.world.read_file(&format!("audit/{number}.jsonl")).unwrap_or_default();
            for line in content.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let line: serde_json::Value = serde_json::from_slice(line).expect("a line of JSON");
                let text = |field: &str| line[field].as_str().map(str::to_owned);
                assert!(line["time_ms"].is_u64() && line["actor"] == "tester", "{line}");
                let said = (text("event").expect("an event"), text("outcome").expect("an outcome"), text("code"));
                lines.insert(line["seq"].as_u64().expect("a number"), said);
            }
        }
        lines.into_values().collect()
    }
}
