//! The table: which test reaches which variant. It is compared with the source, so that a variant without a test fails here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The files whose errors callers see.
const FILES: [&str; 14] = [
    "engine/src/error/mod.rs",
    "engine/src/error/orphan.rs",
    "engine/src/error/policy.rs",
    "engine/src/error/verb.rs",
    "engine/src/host.rs",
    "engine/src/policy/fields.rs",
    "engine/src/policy/named.rs",
    "engine/src/config.rs",
    "engine/src/batch/mod.rs",
    "engine/src/id.rs",
    "engine/src/format/record.rs",
    "engine/disk/src/host/setup_error.rs",
    "engine/disk/src/name.rs",
    "engine/disk/src/error.rs",
];

const ANSWERS: &str = "tests/tests/real_ring/answers.rs";
const APPEND: &str = "tests/tests/real_ring/append.rs";
const DESCRIPTORS: &str = "tests/tests/simulated/descriptors.rs";
const SHORTAGES: &str = "tests/tests/simulated/shortages.rs";
const REAL_DESCRIPTORS: &str = "tests/tests/real_ring/descriptors.rs";
const DAMAGE: &str = "tests/tests/real_ring/damage.rs";
const OPEN: &str = "tests/tests/real_ring/open.rs";
const READ: &str = "tests/tests/real_ring/read.rs";
const ROOM: &str = "tests/tests/real_ring/room.rs";
const CONFIG: &str = "tests/tests/errors/config.rs";
const MANIFEST: &str = "tests/tests/errors/manifest.rs";
const ROT: &str = "tests/tests/simulated/rot.rs";
const SIMULATED: &str = "tests/tests/errors/simulated.rs";
const BATCH_UNIT: &str = "engine/src/batch/builder.rs";
const STORED_UNIT: &str = "engine/src/batch/stored.rs";
const FOREIGN_UNIT: &str = "engine/src/batch/foreign.rs";
const CODEC_UNIT: &str = "engine/src/format/codec.rs";
const VERBS: &str = "tests/tests/errors/verbs.rs";
const VERBS_SIMULATED: &str = "tests/tests/errors/verbs_simulated.rs";
const ID_UNIT: &str = "engine/src/id.rs";
const RECORD_UNIT: &str = "engine/src/format/record.rs";
const SETUP_UNIT: &str = "engine/disk/src/host/setup_error.rs";
const FIELDS_UNIT: &str = "engine/src/policy/fields.rs";
const NAMED_UNIT: &str = "engine/src/policy/named.rs";
const POLICY_REFUSALS: &str = "tests/tests/policies/refusals.rs";
const POLICY_CRASHES: &str = "tests/tests/policies/crashes.rs";
const POLICY_SURFACES: &str = "tests/tests/policies/surfaces.rs";
const ORPHANS: &str = "sweeper/tests/passes/orphans.rs";
const CLOCK: &str = "tests/tests/simulated/clock.rs";
const RESTARTS: &str = "sweeper/tests/passes/restarts.rs";
const HOSTS: &str = "sweeper/tests/passes/hosts.rs";
const PRESSURE: &str = "tests/tests/simulated/pressure.rs";
const ROOT: &str = "engine/disk/tests/real/root.rs";
const REAL_LIMITS: &str = "tests/tests/real_ring/limits.rs";
const READ_ONLY: &str = "tests/tests/real_ring/read_only.rs";
const LIMITS: &str = "engine/disk/tests/real/limits.rs";

/// Variant, file, test. The test names the variant.
const REACHED: &[(&str, &str, &str)] = &[
    ("OpenError::Config", OPEN, "a_configuration_that_cannot_work_is_refused_before_anything_is_made"),
    ("OpenError::Setup", OPEN, "a_second_opener_is_refused_and_admitted_after_the_first_has_closed"),
    ("OpenError::NotAStore", OPEN, "a_directory_with_other_things_in_it_is_refused_and_left_alone"),
    ("OpenError::Identity", DAMAGE, "a_store_whose_identity_or_manifest_is_lost_is_refused_and_says_which"),
    ("OpenError::ManifestDamaged", DAMAGE, "a_store_whose_identity_or_manifest_is_lost_is_refused_and_says_which"),
    (
        "OpenError::ManifestHeadersDamaged",
        ROT,
        "a_manifest_that_lost_both_headers_of_its_newest_page_is_refused_and_the_page_before_it_is_not_used",
    ),
    ("OpenError::ManifestLost", DAMAGE, "a_store_whose_identity_or_manifest_is_lost_is_refused_and_says_which"),
    ("OpenError::ManifestContradiction", MANIFEST, "a_manifest_that_contradicts_itself_is_refused"),
    (
        "OpenError::ManifestFull",
        MANIFEST,
        "a_manifest_that_its_files_cannot_hold_is_refused_with_the_bytes_that_it_needs",
    ),
    ("OpenError::MemoryLimit", REAL_LIMITS, "a_memory_limit_below_what_the_configuration_needs_refuses_the_open"),
    ("OpenError::Disk", SIMULATED, "a_disk_that_fails_while_opening_is_named"),
    ("OpenError::ShardGone", SIMULATED, "a_panic_while_opening_is_an_error_of_opening"),
    (
        "OpenError::UnknownData",
        ORPHANS,
        "os_07_a_root_whose_data_the_manifest_does_not_know_is_refused_and_nothing_of_another_store_is_removed",
    ),
    ("OrphanError::Known", ORPHANS, "os_02_what_was_seen_is_compared_with_what_is_there_when_it_goes"),
    ("OrphanError::Changed", ORPHANS, "os_02_what_was_seen_is_compared_with_what_is_there_when_it_goes"),
    ("OrphanError::Foreign", ORPHANS, "os_02_what_was_seen_is_compared_with_what_is_there_when_it_goes"),
    ("OrphanError::LiveUid", ORPHANS, "an_older_file_beside_one_that_is_in_use_keeps_its_directory"),
    ("OrphanError::Copy", ORPHANS, "a_second_directory_of_a_uid_that_waits_is_a_copy_and_stays"),
    (
        "OrphanError::NotHeld",
        ORPHANS,
        "os_05_an_orphan_waits_in_the_trash_can_be_taken_back_and_goes_when_its_hold_is_over",
    ),
    (
        "OrphanError::Taken",
        ORPHANS,
        "os_05_an_orphan_waits_in_the_trash_can_be_taken_back_and_goes_when_its_hold_is_over",
    ),
    ("OrphanError::Pinned", HOSTS, "a_segment_that_somebody_holds_or_that_is_not_the_oldest_stays"),
    ("OrphanError::Verb", HOSTS, "a_segment_that_somebody_holds_or_that_is_not_the_oldest_stays"),
    ("LookupFailed", HOSTS, "a_host_that_fails_is_late_or_leaves_one_out_stops_the_pass"),
    ("ForgetFailed", HOSTS, "the_host_forgets_what_expires_before_the_store_does_and_what_it_keeps_stays"),
    ("Overloaded", ROOM, "too_many_appends_are_refused_at_once_and_the_batch_comes_back"),
    ("AppendError::BatchTooLarge", APPEND, "a_batch_at_each_limit_is_taken_and_one_past_it_is_refused"),
    ("AppendError::TooManyRecords", APPEND, "a_batch_at_each_limit_is_taken_and_one_past_it_is_refused"),
    ("AppendError::Failed", SIMULATED, "a_write_that_fails_latches_its_log_and_only_its_log_and_closing_says_so"),
    ("AppendError::Latched", SIMULATED, "a_write_that_fails_latches_its_log_and_only_its_log_and_closing_says_so"),
    (
        "AppendError::Lost",
        SIMULATED,
        "an_append_that_was_accepted_and_could_not_be_written_is_named_to_whoever_waits_for_it",
    ),
    ("AppendError::Overloaded", ROOM, "a_wait_for_durability_is_refused_when_too_much_is_outstanding"),
    ("AppendError::DiskFull", SIMULATED, "a_segment_that_cannot_be_prepared_is_named_with_its_cause_and_tried_again"),
    ("AppendError::DiskAlmostFull", PRESSURE, "under_the_hard_mark_appends_are_refused_and_everything_else_goes_on"),
    ("AppendError::Prepare", SIMULATED, "a_segment_that_cannot_be_prepared_is_named_with_its_cause_and_tried_again"),
    (
        "AppendError::Exhausted",
        MANIFEST,
        "a_log_whose_offsets_or_segment_numbers_are_used_up_says_so_and_no_other_suffers",
    ),
    ("AppendError::Closed", ROOM, "closing_ends_the_waiting_for_room"),
    ("AppendError::ShardGone", ANSWERS, "a_panic_on_the_shards_thread_answers_every_waiter"),
    ("ReadError::OutOfRange", READ, "an_offset_outside_the_log_is_refused_with_what_there_is"),
    ("ReadError::Corrupt", DAMAGE, "assert_only_lost"),
    ("ReadError::Disk", SIMULATED, "a_read_that_fails_says_where_and_harms_nothing"),
    ("ReadError::Overloaded", ROOM, "reads_and_new_logs_count_against_the_same_limit"),
    ("ReadError::Closed", ANSWERS, "a_panic_on_the_shards_thread_answers_every_waiter"),
    ("ReadError::ShardGone", ANSWERS, "a_panic_on_the_shards_thread_answers_every_waiter"),
    ("LogError::TooManyLogs", OPEN, "one_log_is_one_however_often_it_is_asked_for"),
    ("LogError::Manifest", SIMULATED, "a_manifest_that_cannot_be_written_makes_no_log"),
    ("LogError::ManifestFull", OPEN, "a_manifest_without_room_says_so"),
    ("LogError::Overloaded", ROOM, "reads_and_new_logs_count_against_the_same_limit"),
    ("LogError::Closed", ANSWERS, "a_panic_on_the_shards_thread_answers_every_waiter"),
    ("LogError::ShardGone", SIMULATED, "a_shard_that_goes_answers_whoever_waits_for_a_log"),
    ("OpenError::NoBarrier", VERBS, "a_barrier_is_refused_where_one_flush_does_not_stand_for_all"),
    (
        "OpenError::TooFewDescriptors",
        REAL_DESCRIPTORS,
        "sc_04_a_limit_that_is_too_low_is_refused_by_name_and_the_least_that_it_names_will_do",
    ),
    (
        "OpenError::TooManyOpen",
        SHORTAGES,
        "an_open_that_finds_no_descriptor_for_a_log_is_refused_by_name_and_the_next_one_has_all",
    ),
    (
        "AppendError::TooManyOpen",
        DESCRIPTORS,
        "where_the_host_leaves_none_an_append_and_a_read_say_so_nothing_is_latched_and_they_go_on_when_it_does",
    ),
    (
        "ReadError::TooManyOpen",
        DESCRIPTORS,
        "where_the_host_leaves_none_an_append_and_a_read_say_so_nothing_is_latched_and_they_go_on_when_it_does",
    ),
    (
        "VerbError::TooManyOpen",
        DESCRIPTORS,
        "where_the_host_leaves_none_an_append_and_a_read_say_so_nothing_is_latched_and_they_go_on_when_it_does",
    ),
    ("AppendError::Deleted", VERBS, "a_log_that_was_deleted_says_so_to_whoever_holds_it"),
    ("AppendError::Fenced", VERBS, "a_fenced_log_takes_no_append_and_repairs_only_where_it_ends_and_as_far_as_it_may"),
    (
        "AppendError::OutOfSync",
        VERBS,
        "a_fenced_log_takes_no_append_and_repairs_only_where_it_ends_and_as_far_as_it_may",
    ),
    ("AppendError::Host", VERBS, "a_segment_that_the_host_does_not_want_is_not_made"),
    ("Refusal", VERBS, "a_segment_that_the_host_does_not_want_is_not_made"),
    (
        "AppendError::Rouse",
        VERBS_SIMULATED,
        "a_log_that_rested_and_cannot_be_read_says_so_and_is_roused_by_a_later_append",
    ),
    (
        "AppendError::Truncating",
        VERBS_SIMULATED,
        "an_append_that_meets_a_truncation_is_refused_and_taken_when_that_was_answered",
    ),
    ("ReadError::Deleted", VERBS, "a_log_that_was_deleted_says_so_to_whoever_holds_it"),
    ("LogError::Options", VERBS, "options_that_cannot_work_are_refused_and_name_the_field"),
    ("LogError::TooManyRanges", VERBS, "options_that_cannot_work_are_refused_and_name_the_field"),
    ("VerbError::NoSuchLog", VERBS, "a_log_that_was_deleted_says_so_to_whoever_holds_it"),
    ("VerbError::NoSuchSegment", VERBS, "only_the_oldest_sealed_segment_is_deleted_and_one_that_is_gone_is_no_error"),
    ("VerbError::SealTimeNotAhead", CLOCK, "what_cannot_be_restamped_is_refused_with_its_seal_time_and_what_to_do"),
    ("VerbError::ClockHeld", CLOCK, "what_cannot_be_restamped_is_refused_with_its_seal_time_and_what_to_do"),
    (
        "VerbError::NotFinalized",
        RESTARTS,
        "a_store_of_an_older_release_keeps_no_time_and_restamps_nothing_until_its_upgrade_is_finished",
    ),
    ("VerbError::NotOldest", VERBS, "only_the_oldest_sealed_segment_is_deleted_and_one_that_is_gone_is_no_error"),
    ("VerbError::NotSealed", VERBS, "only_the_oldest_sealed_segment_is_deleted_and_one_that_is_gone_is_no_error"),
    ("VerbError::OutOfRange", VERBS, "an_offset_that_is_not_in_the_log_is_refused_by_every_verb_that_takes_one"),
    ("VerbError::Host", VERBS, "a_sealed_segment_that_the_host_has_given_up_is_not_rewritten"),
    ("VerbError::Known", VERBS, "a_directory_is_deleted_only_when_no_segment_is_meant_and_nothing_else_is_in_it"),
    ("VerbError::Foreign", VERBS, "a_directory_is_deleted_only_when_no_segment_is_meant_and_nothing_else_is_in_it"),
    ("VerbError::PinTooLarge", VERBS, "a_pin_holds_no_more_than_it_may_and_what_it_holds_stays_until_it_is_dropped"),
    (
        "VerbError::SegmentMaxAgeTooShort",
        VERBS,
        "an_age_under_a_minute_rolls_no_segment_and_a_log_that_does_not_exist_has_none",
    ),
    ("VerbError::Overloaded", VERBS, "a_closed_store_and_one_with_too_much_in_hand_refuse_verbs"),
    ("VerbError::Closed", VERBS, "a_closed_store_and_one_with_too_much_in_hand_refuse_verbs"),
    ("VerbError::Latched", VERBS_SIMULATED, "a_log_that_failed_is_changed_by_no_verb_but_its_deletion"),
    (
        "VerbError::Disk",
        VERBS_SIMULATED,
        "a_disk_that_fails_under_a_verb_is_named_and_a_damaged_segment_is_not_indexed_again",
    ),
    (
        "VerbError::Damaged",
        VERBS_SIMULATED,
        "a_disk_that_fails_under_a_verb_is_named_and_a_damaged_segment_is_not_indexed_again",
    ),
    ("VerbError::Manifest", VERBS_SIMULATED, "a_manifest_that_cannot_be_written_does_no_verb"),
    ("VerbError::ShardGone", VERBS_SIMULATED, "a_shard_that_goes_answers_whoever_waits_for_a_verb"),
    ("PolicyError::Name", POLICY_REFUSALS, "refusals_say_why_change_nothing_and_are_audited_beside_what_was_done"),
    ("PolicyError::Field", POLICY_REFUSALS, "refusals_say_why_change_nothing_and_are_audited_beside_what_was_done"),
    (
        "PolicyError::NoSuchPolicy",
        POLICY_REFUSALS,
        "refusals_say_why_change_nothing_and_are_audited_beside_what_was_done",
    ),
    (
        "PolicyError::NoSuchTopic",
        POLICY_REFUSALS,
        "refusals_say_why_change_nothing_and_are_audited_beside_what_was_done",
    ),
    ("PolicyError::InUse", POLICY_REFUSALS, "refusals_say_why_change_nothing_and_are_audited_beside_what_was_done"),
    (
        "PolicyError::BindingsUnavailable",
        POLICY_REFUSALS,
        "bindings_that_the_host_keeps_are_its_own_and_no_policy_is_deleted_while_they_cannot_be_read",
    ),
    (
        "PolicyError::HostKeepsBindings",
        POLICY_REFUSALS,
        "bindings_that_the_host_keeps_are_its_own_and_no_policy_is_deleted_while_they_cannot_be_read",
    ),
    (
        "BindingsUnavailable",
        POLICY_REFUSALS,
        "bindings_that_the_host_keeps_are_its_own_and_no_policy_is_deleted_while_they_cannot_be_read",
    ),
    (
        "PolicyError::NotFinalized",
        POLICY_REFUSALS,
        "a_store_of_an_older_release_takes_no_policy_until_its_upgrade_is_finished",
    ),
    (
        "PolicyError::TooManyPolicies",
        POLICY_REFUSALS,
        "more_policies_than_there_may_be_and_more_than_the_manifest_holds_are_refused",
    ),
    ("PolicyError::Manifest", POLICY_REFUSALS, "a_manifest_that_cannot_be_written_changes_no_policy"),
    ("PolicyError::Overloaded", POLICY_SURFACES, "a_store_with_too_much_in_hand_and_one_that_is_closed_refuse_changes"),
    ("PolicyError::Closed", POLICY_SURFACES, "a_store_with_too_much_in_hand_and_one_that_is_closed_refuse_changes"),
    ("PolicyError::ShardGone", POLICY_CRASHES, "a_shard_that_goes_answers_whoever_waits_for_a_change"),
    ("FieldError::Unknown", FIELDS_UNIT, "a_field_that_nobody_knows_or_that_stands_twice_is_refused_by_name"),
    ("FieldError::Duplicate", FIELDS_UNIT, "a_field_that_nobody_knows_or_that_stands_twice_is_refused_by_name"),
    ("FieldError::NotANumber", FIELDS_UNIT, "what_is_no_number_is_refused_with_the_field_and_the_value"),
    ("FieldError::NotAText", FIELDS_UNIT, "what_is_no_text_is_refused_with_the_field_and_the_value"),
    ("FieldError::TooLong", FIELDS_UNIT, "what_is_no_text_is_refused_with_the_field_and_the_value"),
    ("FieldError::BelowFloor", FIELDS_UNIT, "the_roll_age_is_taken_at_its_floor_and_refused_below_it"),
    ("FieldError::Unsupported", FIELDS_UNIT, "a_field_of_a_later_level_is_refused_until_the_upgrade_is_finished"),
    (
        "PolicyNameError::Empty",
        NAMED_UNIT,
        "a_name_is_taken_at_its_limit_and_refused_when_it_is_empty_too_long_or_unprintable",
    ),
    (
        "PolicyNameError::TooLong",
        NAMED_UNIT,
        "a_name_is_taken_at_its_limit_and_refused_when_it_is_empty_too_long_or_unprintable",
    ),
    (
        "PolicyNameError::Unprintable",
        NAMED_UNIT,
        "a_name_is_taken_at_its_limit_and_refused_when_it_is_empty_too_long_or_unprintable",
    ),
    ("ConfigError::FieldTaken", CONFIG, "a_field_of_policies_has_one_meaning_and_a_name_that_fits"),
    ("CloseError::Unclean", SIMULATED, "a_write_that_fails_latches_its_log_and_only_its_log_and_closing_says_so"),
    ("CloseError::ShardGone", ANSWERS, "a_panic_on_the_shards_thread_answers_every_waiter"),
    ("ConfigError::OutOfRange", CONFIG, "each_field_is_taken_at_its_limits_and_refused_one_past_them"),
    ("ConfigError::NotAMultiple", CONFIG, "sizes_that_must_be_whole_blocks_are_refused_between_them"),
    ("ConfigError::TooSmallFor", CONFIG, "contradiction"),
    ("BatchError::TooManyRecords", APPEND, "a_batch_at_each_limit_is_taken_and_one_past_it_is_refused"),
    ("BatchError::TooLarge", APPEND, "a_batch_at_each_limit_is_taken_and_one_past_it_is_refused"),
    ("BatchError::Timestamp", BATCH_UNIT, "a_timestamp_that_stands_for_none_is_refused"),
    ("BatchError::Empty", BATCH_UNIT, "a_timestamp_that_stands_for_none_is_refused"),
    ("TopicError::Readable", ID_UNIT, "a_topic_is_taken_at_its_limit_and_refused_one_past_it"),
    ("TopicError::Encoded", ID_UNIT, "a_topic_is_taken_at_its_limit_and_refused_one_past_it"),
    ("BatchError::NotOurs", BATCH_UNIT, "codecs_of_others_are_refused"),
    ("BatchError::NoPayload", FOREIGN_UNIT, "a_batch_that_cannot_be_is_refused_and_says_why"),
    ("BatchError::Uncompressed", FOREIGN_UNIT, "a_batch_that_cannot_be_is_refused_and_says_why"),
    ("DecodeError::Stated", CODEC_UNIT, "unpacking_stops_at_the_largest_payload_there_may_be"),
    (
        "DecodeError::Foreign",
        STORED_UNIT,
        "a_foreign_payload_is_handed_out_as_it_came_and_no_records_are_read_out_of_it",
    ),
    ("DecodeError::Unpack", STORED_UNIT, "a_length_that_lies_is_an_answer_and_no_records"),
    ("DecodeError::Field", RECORD_UNIT, "fields_that_never_may_be_are_refused_by_name"),
    ("DecodeError::Count", RECORD_UNIT, "a_payload_that_is_cut_short_or_goes_on_is_an_error_at_every_byte"),
    ("SetupError::BlockedByPolicy", SETUP_UNIT, "ur_02_ur_04_a_refusal_names_who_refuses"),
    ("SetupError::BlockedBySysctl", SETUP_UNIT, "ur_02_ur_04_a_refusal_names_who_refuses"),
    ("SetupError::KernelTooOld", SETUP_UNIT, "ur_02_ur_04_a_refusal_names_who_refuses"),
    ("SetupError::NoMemory", LIMITS, "ur_01_where_not_even_the_ring_may_be_locked_the_error_names_limit_and_need"),
    (
        "SetupError::FileSizeLimit",
        REAL_LIMITS,
        "files_larger_than_the_limit_refuse_the_open_with_field_need_and_limit_and_no_signal_comes",
    ),
    (
        "SetupError::ReadOnly",
        READ_ONLY,
        "a_store_on_a_read_only_file_system_is_refused_as_such_and_opens_when_it_is_writable_again",
    ),
    ("SetupError::UnknownBackend", LIMITS, "ur_13_a_backend_that_does_not_exist_is_refused_by_its_name"),
    ("SetupError::LockHeld", ROOT, "a_second_opener_is_refused_and_let_in_after_the_first_has_gone"),
    ("SetupError::NotADirectory", ROOT, "a_root_that_is_not_safe_is_refused"),
    ("SetupError::NotOurs", ROOT, "a_root_that_is_not_safe_is_refused"),
    ("SetupError::WorldWritable", ROOT, "a_root_that_is_not_safe_is_refused"),
    ("SetupError::OddLockFile", ROOT, "a_root_that_is_not_safe_is_refused"),
    ("SetupError::Disk", ROOT, "a_root_that_is_not_safe_is_refused"),
    ("NameError", "engine/disk/src/name.rs", "a_name_cannot_leave_its_directory"),
    ("DiskError", SIMULATED, "a_read_that_fails_says_where_and_harms_nothing"),
];

/// What no test on one machine reaches, and why it is there all the same.
const NOT_REACHED: &[(&str, &str)] =
    &[("OpenError::Thread", "the host must be out of threads, for which a test would have to use them up")];

fn root() -> PathBuf {
    let from = std::env::current_dir().expect("a current directory");
    let is_root =
        |directory: &&Path| directory.join("engine/disk/src").is_dir() && directory.join("Cargo.lock").is_file();
    from.ancestors().find(is_root).expect("cargo runs tests in their package's directory").to_owned()
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The errors of a file: `Enum::Variant` for each, or the name of a struct.
fn errors_of(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut lines = text.lines().skip_while(|line| !is_error(line));
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("pub struct ") {
            found.insert(name.trim_end_matches([' ', '{', ';']).to_owned());
        }
        if let Some(name) = line.strip_prefix("pub enum ").and_then(|rest| rest.strip_suffix(" {")) {
            let body = lines.by_ref().take_while(|line| *line != "}");
            let variants =
                body.filter_map(|line| line.strip_prefix("    ").filter(|rest| rest.starts_with(char::is_uppercase)));
            found.extend(variants.map(|variant| {
                format!("{name}::{}", variant.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default())
            }));
        }
        if line.starts_with('}') || line.starts_with("pub enum") {
            for line in lines.by_ref() {
                if is_error(line) {
                    break;
                }
            }
        }
    }
    found
}

fn is_error(line: &str) -> bool {
    line.starts_with("#[derive(") && line.contains("thiserror::Error")
}

/// The text of a function.
fn body<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let start = text.find(&format!("fn {name}("))?;
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let indent = text[line_start..].len() - text[line_start..].trim_start().len();
    let end = text[start..].find(&format!("\n{}}}", " ".repeat(indent)))?;
    text.get(start..start + end)
}

#[test]
fn every_variant_of_every_error_is_reached_by_a_test_or_excused() {
    let known: BTreeSet<String> = FILES.iter().flat_map(|file| errors_of(&read(file))).collect();
    assert!(known.len() > 50, "the errors were found: {known:?}");
    let listed: BTreeSet<String> =
        REACHED.iter().map(|row| row.0).chain(NOT_REACHED.iter().map(|row| row.0)).map(str::to_owned).collect();
    assert_eq!(listed.len(), REACHED.len() + NOT_REACHED.len(), "each is listed once");
    let missing: Vec<_> = known.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&known).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "without a test: {missing:?}; in the table and not in the source: {gone:?}"
    );
    assert!(NOT_REACHED.iter().all(|(_, why)| !why.is_empty()));
}

#[test]
fn the_tests_in_the_table_exist_and_name_their_variant() {
    let mut texts = BTreeMap::new();
    for (error, file, test) in REACHED {
        let text = texts.entry(file).or_insert_with(|| read(file));
        let body = body(text, test).unwrap_or_else(|| panic!("{error}: there is no test {test} in {file}"));
        let name = error.rsplit("::").next().unwrap_or(error);
        let speaks = body.contains(name) || !error.contains("::");
        assert!(speaks, "{error}: {test} in {file} does not name it");
    }
}

#[test]
fn errors_are_found_in_the_source() {
    let text = "#[derive(Debug, thiserror::Error)]\n#[error(\"x\")]\npub struct One {\n    field: u8,\n}\n\
                #[derive(Debug)]\npub enum No {\n    Not,\n}\n\
                #[derive(thiserror::Error)]\npub enum Two {\n    /// A.\n    #[error(\"a\")]\n    A {\n        /// F.\n        f: u8,\n    },\n    B(u8),\n    C,\n}\n";
    assert_eq!(errors_of(text).into_iter().collect::<Vec<_>>(), ["One", "Two::A", "Two::B", "Two::C"]);
}
