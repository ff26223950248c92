//! The configuration: each limit is taken and one past it refused, naming the field; so is each relation between two fields.

use strandline::Config;
use strandline::config::ConfigError;

type Set = fn(&mut Config, u64);

/// Each field with a range, its smallest and its largest value, and how to set it.
const RANGES: [(&str, u64, u64, Set); 11] = [
    ("segment_bytes", 64 << 10, 4 << 30, |config, value| config.segment_bytes = value),
    ("batch_bytes_max", 1, 64 << 20, |config, value| config.batch_bytes_max = value as u32),
    ("batch_records_max", 1, 1 << 24, |config, value| config.batch_records_max = value as u32),
    ("outstanding_max", 1, 1 << 20, |config, value| config.outstanding_max = value as usize),
    ("outstanding_bytes_max", 1, 1 << 40, |config, value| config.outstanding_bytes_max = value as usize),
    ("read_bytes_max", 1, 64 << 20, |config, value| config.read_bytes_max = value as u32),
    ("arena_bytes", 1 << 20, 1 << 34, |config, value| config.arena_bytes = value as usize),
    ("manifest_bytes", 64 << 10, 1 << 30, |config, value| config.manifest_bytes = value),
    ("audit_bytes", 64 << 10, 64 << 20, |config, value| config.audit_bytes = value),
    ("descriptors_max", 8, 1 << 20, |config, value| config.descriptors_max = Some(value as usize)),
    ("logs_max", 1, 1 << 20, |config, value| config.logs_max = value as usize),
];

/// The defaults with one field changed, and the others so that no relation stands in the way.
fn with(field: &str, set: Set, value: u64) -> Result<(), ConfigError> {
    let mut config =
        Config { segment_bytes: 4 << 30, commit_bytes_max: 128 << 20, arena_bytes: 1 << 34, ..Config::new("x") };
    config.outstanding_bytes_max = 1 << 40;
    if ["segment_bytes", "arena_bytes", "outstanding_bytes_max"].contains(&field) {
        (config.batch_bytes_max, config.commit_bytes_max) = (1, 12 << 10);
    }
    set(&mut config, value);
    config.check().map(drop)
}

#[test]
fn each_field_is_taken_at_its_limits_and_refused_one_past_them() {
    for (field, low, high, set) in RANGES {
        for value in [low, high] {
            assert_eq!(with(field, set, value), Ok(()), "{field} = {value}");
        }
        for value in [low - 1, high + 1] {
            assert_eq!(with(field, set, value), Err(ConfigError::OutOfRange { field, value, low, high }));
        }
    }
    let commit = |value| Config { commit_bytes_max: value, batch_bytes_max: 1, ..Config::new("x") }.check().map(drop);
    let (field, low, high) = ("commit_bytes_max", 4096, 128 << 20);
    for value in [4095, (128 << 20) + 1] {
        assert_eq!(commit(value), Err(ConfigError::OutOfRange { field, value: value.into(), low, high }));
    }
}

#[test]
fn sizes_that_must_be_whole_blocks_are_refused_between_them() {
    let manifest = Config { manifest_bytes: (1 << 20) + 4096, ..Config::new("x") }.check().expect_err("half a pair");
    assert_eq!(manifest, ConfigError::NotAMultiple { field: "manifest_bytes", value: (1 << 20) + 4096, unit: 8192 });
}

#[test]
fn a_field_of_policies_has_one_meaning_and_a_name_that_fits() {
    let check = |names: &[&str]| {
        let host_fields = names.iter().map(|name| (*name).to_owned()).collect();
        Config { host_fields, ..Config::new("x") }.check().map(drop)
    };
    let numbered: Vec<String> = (0..17).map(|number| format!("{number:064}")).collect();
    let numbered: Vec<&str> = numbered.iter().map(String::as_str).collect();
    assert_eq!(check(&[]), Ok(()));
    assert_eq!(check(&numbered[..16]), Ok(()));
    assert!(matches!(check(&numbered), Err(ConfigError::OutOfRange { value: 17, high: 16, .. })));
    for name in ["", &"x".repeat(65)] {
        assert!(matches!(check(&[name]), Err(ConfigError::OutOfRange { low: 1, high: 64, .. })), "{name:?}");
    }
    for names in [&["retention.max_bytes"][..], &["cleanup"], &["rack", "rack"]] {
        let name = names[0].to_owned();
        assert_eq!(check(names), Err(ConfigError::FieldTaken { name }));
    }
}

/// The refusal of a configuration in which `larger` cannot hold what `smaller` asks for; one step more must do.
fn contradiction(larger: &str, smaller: &str, set: Set, config: &Config) {
    let refused = config.clone().check().expect_err("a contradiction");
    let ConfigError::TooSmallFor { larger: named, needed, smaller: by, .. } = refused.clone() else {
        panic!("{refused}")
    };
    assert_eq!((named, by), (larger, smaller));
    let mut enough = config.clone();
    set(&mut enough, needed.next_multiple_of(4096));
    assert!(enough.check().is_ok(), "what is said to be needed is enough: {refused}");
    let mut less = config.clone();
    set(&mut less, (needed - 1) / 4096 * 4096);
    assert!(less.check().is_err(), "and no less: {refused}");
}

#[test]
fn two_fields_that_contradict_each_other_are_both_named_with_what_would_do() {
    let base = Config::new("x");
    let config = Config { commit_bytes_max: 1 << 20, ..base.clone() };
    contradiction(
        "commit_bytes_max",
        "batch_bytes_max",
        |config, value| config.commit_bytes_max = value as u32,
        &config,
    );
    let config = Config { segment_bytes: 1 << 20, ..base.clone() };
    contradiction("segment_bytes", "batch_bytes_max", |config, value| config.segment_bytes = value, &config);
    let config = Config { outstanding_bytes_max: 1 << 19, ..base.clone() };
    contradiction(
        "outstanding_bytes_max",
        "batch_bytes_max",
        |config, value| config.outstanding_bytes_max = value as usize,
        &config,
    );
    let config = Config { arena_bytes: 1 << 20, ..base };
    contradiction("arena_bytes", "commit_bytes_max", |config, value| config.arena_bytes = value as usize, &config);
}
