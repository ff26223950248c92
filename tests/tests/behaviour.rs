//! What the store does when nothing fails.

use strandline_tests::harness::machine::small;
use strandline_tests::harness::{Machine, Step};

#[test]
fn what_is_appended_is_read_back_now_and_after_a_reopen() {
    let mut machine = Machine::new(1, small());
    machine.open().expect("an empty directory becomes a store");
    let append = Step::Append { log: 0, batches: 3, records: 2, bytes: 300 };
    let read = Step::Read { log: 0, per_mille: 0, bytes: 1 << 16 };
    machine.run(&[Step::OpenLog(0), Step::Answer, append, Step::Answer, read, Step::Answer]).expect("a plain history");
    assert_eq!(machine.model.logs[0].held.len(), 3);
    machine.run(&[Step::Reopen, append, Step::Answer, Step::Reopen]).expect("a reopen");
    assert_eq!(machine.model.logs[0].held.len(), 6);
}
