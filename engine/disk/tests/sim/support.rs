//! Short ways to say what the tests of the simulated disk say often. Each panics where the disk answers an error.

use strandline_disk::sim::{Driven, Loss, SimDisk, SimWorld, drive, drive_steps};
use strandline_disk::{Access, BLOCK, Buffer, Directory, Disk, File, Name, OpenFile, Operation, Position, transfer};

pub const LOSSES: [Loss; 4] = [Loss::Random, Loss::DropAll, Loss::KeepAll, Loss::Prefix];

pub fn name(text: &str) -> Name {
    Name::new(text).expect("a plain name")
}

/// A world with a durable file `f` of the given bytes.
pub fn world_with(seed: u64, bytes: &[u8]) -> SimWorld {
    let world = SimWorld::new(seed);
    world.put_file("f", bytes);
    world
}

pub fn filled(disk: &SimDisk, byte: u8, length: usize) -> Buffer {
    let mut buffer = disk.pool().take(length).expect("room in the pool");
    buffer.fill(byte);
    buffer
}

pub fn open(disk: &SimDisk, directory: &Directory, file: &str, how: OpenFile, access: Access) -> File {
    drive(disk, transfer::open(disk, directory, &name(file), how, access)).expect("it opens")
}

/// Opens `f` in the root, for direct I/O.
pub fn open_f(disk: &SimDisk) -> File {
    open(disk, &disk.root(), "f", OpenFile::Existing, Access::Auto)
}

/// Opens `f` in the root, through the page cache.
pub fn open_f_buffered(disk: &SimDisk) -> File {
    open(disk, &disk.root(), "f", OpenFile::Existing, Access::Buffered)
}

pub fn write(disk: &SimDisk, file: &File, byte: u8, position: u64, length: usize, durable: bool) {
    let buffer = filled(disk, byte, length);
    drive(disk, transfer::write(disk, file, buffer, Position(position), durable)).1.expect("it is written");
}

pub fn write_operation(disk: &SimDisk, file: &File, byte: u8, position: u64, length: usize) -> Operation {
    let buffer = filled(disk, byte, length);
    Operation::Write { file: file.clone(), buffer, span: 0..length, position: Position(position), durable: false }
}

/// Reads up to `length` bytes, rounded up to a block.
pub fn read(disk: &SimDisk, file: &File, position: u64, length: usize) -> Vec<u8> {
    let buffer = disk.pool().take(length.next_multiple_of(BLOCK)).expect("room in the pool");
    let mut buffer = buffer;
    buffer.set_length(length.next_multiple_of(BLOCK));
    let (buffer, moved) = drive(disk, transfer::read(disk, file, buffer, Position(position)));
    buffer[..moved.expect("it is read").min(length)].to_vec()
}

pub fn sync(disk: &SimDisk, file: &File) {
    drive(disk, transfer::sync(disk, file)).expect("it is synced");
}

pub fn sync_directory(disk: &SimDisk, directory: &Directory) {
    drive(disk, transfer::sync_directory(disk, directory)).expect("it is synced");
}

pub fn make_directory(disk: &SimDisk, text: &str) -> Directory {
    let root = disk.root();
    drive(disk, transfer::create_directory(disk, &root, &name(text))).expect("it is made");
    drive(disk, transfer::open_directory(disk, &root, &name(text))).expect("it opens")
}

pub fn rename(disk: &SimDisk, from: (&Directory, &str), to: (&Directory, &str)) {
    let (from, from_name, to, to_name) = (from.0.clone(), name(from.1), to.0.clone(), name(to.1));
    drive(disk, disk.start(Operation::Rename { from, from_name, to, to_name })).result.expect("it is renamed");
}

pub fn unlink(disk: &SimDisk, directory: &Directory, file: &str) {
    drive(disk, transfer::unlink(disk, directory, &name(file))).expect("it is unlinked");
}

/// Turns the disk so many times, while nobody waits for anything.
pub fn turn(disk: &SimDisk, turns: usize) {
    assert!(matches!(drive_steps(disk, std::future::pending::<()>(), turns), Driven::Pending(_)));
}

/// The byte that each whole sector is made of; panics when a sector is a mixture, which no crash may leave.
pub fn sectors(bytes: &[u8]) -> Vec<u8> {
    let whole = |sector: &[u8]| {
        assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is neither old nor new");
        sector[0]
    };
    bytes.chunks(512).map(whole).collect()
}
