//! Damage to the medium is there at once and after every crash.

use crate::support::*;
use strandline_disk::sim::{Loss, SimWorld};
use strandline_disk::{Access, BLOCK, Disk, OpenFile};

/// Checks the bytes of `f` now and after each kind of power failure.
fn found(world: &SimWorld, expected: &[u8]) {
    assert_eq!(world.read_file("f").as_deref(), Some(expected));
    for (seed, loss) in LOSSES.into_iter().enumerate() {
        assert_eq!(world.crash_image(seed as u64, loss).read_file("f").as_deref(), Some(expected), "{loss:?}");
    }
}

#[test]
fn rot_flips_the_bits_it_names() {
    let world = world_with(1, &[0x0f; 2 * BLOCK]);
    world.rot("f", 5_000, 0x81);
    let mut expected = [0x0f; 2 * BLOCK];
    expected[5_000] = 0x8e;
    found(&world, &expected);
}

#[test]
fn rot_strikes_what_is_not_durable_too() {
    let world = world_with(1, &[b'o'; BLOCK]);
    let disk = world.open();
    write(&disk, &open_f(&disk), b'n', 0, BLOCK, false);
    world.rot("f", 0, 1);
    assert_eq!(world.crash_image(1, Loss::DropAll).read_file("f").expect("there")[0], b'o' ^ 1);
    assert_eq!(world.crash_image(1, Loss::KeepAll).read_file("f").expect("there")[0], b'n' ^ 1);
}

#[test]
fn stale_and_zeroed_bytes_stand_where_they_were_put() {
    let world = world_with(1, &[b'o'; 3 * BLOCK]);
    world.stale("f", 4_000, &[b's'; 200]);
    world.zero("f", 8_000..9_000);
    let mut expected = [b'o'; 3 * BLOCK];
    expected[4_000..4_200].fill(b's');
    expected[8_000..9_000].fill(0);
    found(&world, &expected);
}

#[test]
fn files_can_be_cut_copied_and_removed() {
    let world = world_with(1, &[b'o'; 2 * BLOCK]);
    world.copy_file("f", "d/e/copy");
    world.truncate_file("f", 100);
    found(&world, &[b'o'; 100]);
    assert_eq!(world.durable_file("d/e/copy").expect("it is there"), [b'o'; 2 * BLOCK]);
    world.remove_file("f");
    world.power_failure(Loss::Random);
    assert_eq!(world.files(), [("d/e/copy".to_owned(), 2 * BLOCK as u64)]);
}

#[test]
fn surgery_leaves_the_loose_names_loose() {
    let world = SimWorld::new(1);
    let disk = world.open();
    open(&disk, &disk.root(), "loose", OpenFile::New, Access::Auto);
    world.put_file("placed", b"x");
    world.power_failure(Loss::DropAll);
    assert_eq!(world.files(), [("placed".to_owned(), 1)]);
}
