//! Without crash and fault the simulated disk is a plain file system: it agrees with one byte vector per file.

use crate::support::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use strandline_disk::sim::{SimDisk, SimWorld, drive};
use strandline_disk::{Access, Disk, OpenFile, Position, transfer};

#[derive(Clone, Debug)]
enum Step {
    Write { file: usize, block: u64, blocks: usize, durable: bool },
    Patch { file: usize, position: u64, length: usize, durable: bool },
    Truncate { file: usize, length: u64 },
    Allocate { file: usize, length: u64 },
    Read { file: usize, block: u64, blocks: usize },
    Sync { file: usize },
    Rename { from: usize, to: usize },
    Unlink { file: usize },
    SyncDirectory,
    Kill,
}

fn step() -> impl Strategy<Value = Step> {
    let file = || 0..3usize;
    prop_oneof![
        (file(), 0..6u64, 1..4usize, any::<bool>()).prop_map(|(file, block, blocks, durable)| Step::Write {
            file,
            block,
            blocks,
            durable
        }),
        (file(), 0..20_000u64, 1..9_000usize, any::<bool>())
            .prop_map(|(file, position, length, durable)| Step::Patch { file, position, length, durable }),
        (file(), 0..30_000u64).prop_map(|(file, length)| Step::Truncate { file, length }),
        (file(), 1..30_000u64).prop_map(|(file, length)| Step::Allocate { file, length }),
        (file(), 0..6u64, 1..4usize).prop_map(|(file, block, blocks)| Step::Read { file, block, blocks }),
        file().prop_map(|file| Step::Sync { file }),
        (file(), file()).prop_map(|(from, to)| Step::Rename { from, to }),
        file().prop_map(|file| Step::Unlink { file }),
        Just(Step::SyncDirectory),
        Just(Step::Kill),
    ]
}

type Model = BTreeMap<String, Vec<u8>>;

fn put(bytes: &mut Vec<u8>, position: usize, length: usize, byte: u8) {
    bytes.resize(bytes.len().max(position + length), 0);
    bytes[position..position + length].fill(byte);
}

fn open_or_make(disk: &SimDisk, model: &mut Model, path: &str, access: Access) -> strandline_disk::File {
    let how = if model.contains_key(path) { OpenFile::Existing } else { OpenFile::New };
    model.entry(path.to_owned()).or_default();
    open(disk, &disk.root(), path, how, access)
}

fn apply(world: &SimWorld, disk: &mut SimDisk, model: &mut Model, step: &Step, byte: u8) {
    let path = |file: &usize| format!("file{file}");
    match step {
        Step::Write { file, block, blocks, durable } => {
            let handle = open_or_make(disk, model, &path(file), Access::Auto);
            write(disk, &handle, byte, block * 4096, blocks * 4096, *durable);
            put(model.get_mut(&path(file)).expect("made"), *block as usize * 4096, blocks * 4096, byte);
        }
        Step::Patch { file, position, length, durable } => {
            let handle = open_or_make(disk, model, &path(file), Access::Buffered);
            write(disk, &handle, byte, *position, *length, *durable);
            put(model.get_mut(&path(file)).expect("made"), *position as usize, *length, byte);
        }
        Step::Truncate { file, length } => {
            let handle = open_or_make(disk, model, &path(file), Access::Auto);
            drive(disk, transfer::truncate(disk, &handle, *length)).expect("it is cut");
            model.get_mut(&path(file)).expect("made").resize(*length as usize, 0);
        }
        Step::Allocate { file, length } => {
            let handle = open_or_make(disk, model, &path(file), Access::Auto);
            drive(disk, transfer::allocate(disk, &handle, *length)).expect("room");
            let bytes = model.get_mut(&path(file)).expect("made");
            bytes.resize(bytes.len().max(*length as usize), 0);
        }
        Step::Read { file, block, blocks } => {
            let handle = open_or_make(disk, model, &path(file), Access::Auto);
            let (from, all) = (*block as usize * 4096, &model[&path(file)]);
            let expected = &all[from.min(all.len())..(from + blocks * 4096).min(all.len())];
            assert_eq!(read(disk, &handle, from as u64, blocks * 4096), expected);
        }
        Step::Sync { file } => sync(disk, &open_or_make(disk, model, &path(file), Access::Auto)),
        Step::Rename { from, to } if model.contains_key(&path(from)) => {
            rename(disk, (&disk.root(), &path(from)), (&disk.root(), &path(to)));
            let bytes = model.remove(&path(from)).expect("it is there");
            model.insert(path(to), bytes);
        }
        Step::Unlink { file } if model.remove(&path(file)).is_some() => unlink(disk, &disk.root(), &path(file)),
        Step::Rename { .. } | Step::Unlink { .. } => {}
        Step::SyncDirectory => sync_directory(disk, &disk.root()),
        Step::Kill => {
            world.kill();
            *disk = world.open();
        }
    }
}

/// The read that looks for the end has to start on a block again; it once started at byte 4,097.
#[test]
fn a_direct_read_over_an_end_within_a_block_is_short() {
    let world = world_with(1, &[b'o'; 4_097]);
    let disk = world.open();
    assert_eq!(read(&disk, &open_f(&disk), 0, 4 * 4096), [b'o'; 4_097]);
}

/// Writes whose futures are all awaited at the end, so that they land in any order.
#[test]
fn writes_in_any_order_add_up_to_the_same_file() {
    for seed in 0..100 {
        let world = world_with(seed, b"");
        let disk = world.open();
        let file = open_f(&disk);
        let buffers = (0..16u8).map(|block| (block, filled(&disk, block, 4096)));
        let flights: Vec<_> = buffers
            .map(|(block, buffer)| {
                let position = Position(u64::from(block) * 4096);
                let (file, span) = (file.clone(), 0..4096);
                disk.start(strandline_disk::Operation::Write { file, buffer, span, position, durable: block % 2 == 0 })
            })
            .collect();
        flights.into_iter().for_each(|flight| drop(drive(&disk, flight).result.expect("it is written")));
        let expected: Vec<u8> = (0..16u8).flat_map(|block| [block; 4096]).collect();
        assert_eq!(world.read_file("f"), Some(expected), "seed {seed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_disk_agrees_with_a_vector_of_bytes_per_file(seed in any::<u64>(), steps in prop::collection::vec(step(), 1..40)) {
        let world = SimWorld::new(seed);
        let mut disk = world.open();
        let mut model = Model::new();
        for (index, step) in steps.iter().enumerate() {
            apply(&world, &mut disk, &mut model, step, index as u8 + 1);
        }
        let files: Vec<(String, u64)> = model.iter().map(|(path, bytes)| (path.clone(), bytes.len() as u64)).collect();
        prop_assert_eq!(world.files(), files);
        for (path, bytes) in &model {
            prop_assert_eq!(&world.read_file(path).expect("it is there"), bytes);
        }
        // All synced, nothing may be lost, whatever a power failure chooses.
        for path in model.keys() {
            let handle = open(&disk, &disk.root(), path, OpenFile::Existing, Access::Auto);
            sync(&disk, &handle);
        }
        sync_directory(&disk, &disk.root());
        prop_assert_eq!(world.loose_changes(), 0);
        world.power_failure(strandline_disk::sim::Loss::Random);
        for (path, bytes) in &model {
            prop_assert_eq!(&world.read_file(path).expect("it is there"), bytes);
        }
    }
}
