//! Golden files: what each level of the format wrote once, and what every later release must read and write.
//!
//! One file per structure in `tests/golden/format-1`. To add one: add its entry to a list below, then
//! `cargo test -p strandline-tests --test golden -- --ignored`, and look at the new bytes beside the tables of FORMAT.md. A file
//! that is there is never written again. When a structure has to change, that is another level, with a folder of its own.

mod batches;
mod blocks;
mod manifest;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io::Write;
use std::path::PathBuf;

/// One structure with the value that its file holds.
struct Golden {
    name: &'static str,
    /// The file's bytes, as this release writes them.
    encode: Box<dyn Fn() -> Vec<u8>>,
    /// Says what is wrong with what this release reads out of the file.
    check: Check,
    /// False where a library decides on the bytes: another version of it may compress otherwise, and has to read these all the same.
    is_exact: bool,
}

type Check = Box<dyn Fn(&[u8]) -> Result<(), String>>;

/// A structure whose bytes are wholly ours.
fn golden<T: Debug + PartialEq + 'static>(
    name: &'static str,
    value: T,
    encode: impl Fn(&T) -> Vec<u8> + 'static,
    decode: impl Fn(&[u8]) -> T + 'static,
) -> Golden {
    let value = std::rc::Rc::new(value);
    let expected = value.clone();
    let check = move |bytes: &[u8]| {
        let found = decode(bytes);
        if found == *expected { Ok(()) } else { Err(format!("{found:?} was read, not {expected:?}")) }
    };
    Golden { name, encode: Box::new(move || encode(&value)), check: Box::new(check), is_exact: true }
}

fn all() -> Vec<Golden> {
    [blocks::all(), batches::all(), manifest::all()].into_iter().flatten().collect()
}

fn folder() -> PathBuf {
    PathBuf::from("golden").join("format-1")
}

fn path(golden: &Golden) -> PathBuf {
    folder().join(format!("{}.bin", golden.name))
}

#[test]
fn every_file_of_format_1_is_read_and_written_as_it_was() {
    let mut wrong = Vec::new();
    for golden in all() {
        let path = path(&golden);
        let Ok(bytes) = std::fs::read(&path) else {
            wrong.push(format!("{} is missing", path.display()));
            continue;
        };
        if let Err(why) = (golden.check)(&bytes) {
            wrong.push(format!("{}: {why}", path.display()));
        }
        let written = (golden.encode)();
        if golden.is_exact && written != bytes {
            let at = written.iter().zip(&bytes).position(|(one, other)| one != other);
            let at = at.unwrap_or(written.len().min(bytes.len()));
            let lengths = (written.len(), bytes.len());
            wrong.push(format!("{}: byte {at} is written otherwise (lengths now, then: {lengths:?})", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_golden_file_goes_unread_and_no_name_is_given_twice() {
    let goldens = all();
    let names: BTreeSet<_> = goldens.iter().map(|golden| format!("{}.bin", golden.name)).collect();
    assert_eq!(names.len(), goldens.len());
    let entries = std::fs::read_dir(folder()).expect("the folder");
    let files: BTreeSet<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(files, names);
}

/// Writes the files that are not there yet. What is there stays: it stands for stores that somebody has.
#[test]
#[ignore = "writes into the source tree"]
fn write_golden_files() {
    std::fs::create_dir_all(folder()).expect("a folder");
    for golden in all() {
        let bytes = (golden.encode)();
        (golden.check)(&bytes).unwrap_or_else(|why| panic!("{}: {why}", golden.name));
        match std::fs::File::create_new(path(&golden)) {
            Ok(mut file) => file.write_all(&bytes).expect("written"),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => panic!("{}: {error}", golden.name),
        }
    }
}
