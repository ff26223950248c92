//! The source itself: who imports whom, and the habits that a reader relies on.
//!
//! Floors, importing downward only:
//! `store > shard > removal > log, manifest, audit > segment > batch, config, error > format > id, layout, pending, policy, sync > the disk crate`.
//! Batches, the configuration's checks and errors speak of the format (lengths, checksums, positions), so they stand above it;
//! ids, names, policies and the place of an answer know nothing of it and stand below. Within a floor modules import each other without a
//! circle. In the disk crate `uring`, `posix` and `sim` stand side by side on everything else; `real` alone chooses between the first two.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The floors of the engine, lowest first.
const ENGINE: [&[&str]; 8] = [
    &["id", "layout", "pending", "policy", "sync"],
    &["format"],
    &["batch", "config", "error", "host"],
    &["segment"],
    &["audit", "log", "manifest"],
    &["removal"],
    &["shard"],
    &["store"],
];

/// The towers of the disk crate: nothing but tests and the roof imports them, and they do not import each other.
const DISK_TOWERS: [&str; 5] = ["uring", "posix", "sim", "bare", DISK_ROOF];

/// Who chooses between towers.
const DISK_ROOF: &str = "real";

/// The places outside the disk crate that need `unsafe`: a global allocator that counts is an unsafe trait.
const UNSAFE_BESIDE_THE_DISK: [&str; 2] = ["tests/tests/allocations.rs", "tests/tests/common/memory.rs"];

const LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

/// One file of ours.
struct Source {
    /// Its path from the root of the repository.
    path: String,
    text: String,
}

impl Source {
    /// The text without its test module and without comments.
    fn code(&self) -> String {
        let code = self.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let code = code.split("#[cfg(test)]\npub(super) mod tests {").next().unwrap_or_default();
        let lines = code.lines().map(|line| if line.trim_start().starts_with("//") { "" } else { line });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The path of its module from `src`, as `shard::read`; empty for the crate's root.
    fn module(&self, src: &str) -> Vec<String> {
        let below = self.path.strip_prefix(src).and_then(|path| path.strip_suffix(".rs")).expect("a file below src");
        let mut parts: Vec<String> = below.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        if parts.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
            parts.pop();
        }
        parts
    }
}

fn root() -> PathBuf {
    let from = std::env::current_dir().expect("a current directory");
    let is_root =
        |directory: &&Path| directory.join("engine/disk/src").is_dir() && directory.join("Cargo.lock").is_file();
    from.ancestors().find(is_root).expect("cargo runs tests in their package's directory").to_owned()
}

/// Every Rust file below `under`, in the order of names.
fn sources(under: &str) -> Vec<Source> {
    let root = root();
    let (mut left, mut found) = (vec![root.join(under)], Vec::new());
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("listed").map(|entry| entry.expect("an entry").path());
            left.extend(entries.filter(|path| !path.ends_with("target")));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("text");
            let path = path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
            found.push(Source { path, text });
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

fn all_sources() -> Vec<Source> {
    ["engine", "sweeper", "bench", "fuzz", "tests"]
        .into_iter()
        .filter(|folder| root().join(folder).is_dir())
        .flat_map(sources)
        .collect()
}

/// The paths that a file names by `crate::` or `super::`, in `use` lines and elsewhere, from the crate's root. Groups are
/// opened: `crate::{a, b::c}` gives `a` and `b`.
fn named_paths(source: &Source, src: &str) -> Vec<Vec<String>> {
    let (code, module) = (source.code(), source.module(src));
    let mut found = Vec::new();
    for (at, word) in code.match_indices("crate::").chain(code.match_indices("super::")) {
        let before = code[..at].chars().next_back().unwrap_or(' ');
        if before.is_alphanumeric() || before == '_' || code[..at].ends_with("super::") {
            continue;
        }
        let mut base = if word == "crate::" { Vec::new() } else { module.clone() };
        let mut rest = &code[at..];
        while let Some(behind) = rest.strip_prefix("super::") {
            base.pop();
            rest = behind;
        }
        let rest = rest.strip_prefix("crate::").unwrap_or(rest);
        for first in first_names(rest) {
            found.push(base.iter().cloned().chain([first]).collect());
        }
    }
    found
}

/// The first name of a path, or of each path of a group.
fn first_names(rest: &str) -> Vec<String> {
    let name =
        |text: &str| text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let Some(group) = rest.strip_prefix('{') else { return vec![name(rest)] };
    let (mut depth, mut part, mut names) = (0, String::new(), Vec::new());
    for letter in group.chars() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(std::mem::take(&mut part)),
            _ => {}
        }
        part.push(letter);
    }
    names.push(part);
    names.iter().map(|part| name(part.trim_start_matches(','))).filter(|name| !name.is_empty()).collect()
}

/// Which top-level module of a crate names which others, with the files in which it does.
fn imports(src: &str) -> BTreeMap<(String, String), BTreeSet<String>> {
    let mut edges: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    let sources = sources(src);
    let modules: BTreeSet<String> = sources.iter().filter_map(|source| source.module(src).first().cloned()).collect();
    for source in &sources {
        // The crate's root only says what there is.
        let Some(from) = source.module(src).first().cloned() else { continue };
        for path in named_paths(source, src) {
            let to = path.first().filter(|to| **to != from && modules.contains(*to));
            if let Some(to) = to {
                edges.entry((from.clone(), to.clone())).or_default().insert(source.path.clone());
            }
        }
    }
    edges
}

/// A circle among these edges, if there is one.
fn circle<'a>(edges: impl Iterator<Item = &'a (String, String)>) -> Option<Vec<String>> {
    let mut left: BTreeSet<(String, String)> = edges.cloned().collect();
    loop {
        let sources: BTreeSet<String> = left.iter().map(|(from, _)| from.clone()).collect();
        let targets: BTreeSet<String> = left.iter().map(|(_, to)| to.clone()).collect();
        let before = left.len();
        // What nothing imports, and what imports nothing, is on no circle.
        left.retain(|(from, to)| targets.contains(from) && sources.contains(to));
        match (left.len(), before) {
            (0, _) => return None,
            (now, before) if now == before => {
                return Some(left.into_iter().map(|(from, to)| format!("{from} -> {to}")).collect());
            }
            _ => {}
        }
    }
}

#[test]
fn the_engine_imports_downward_only() {
    let floor = |module: &str| ENGINE.iter().position(|floor| floor.contains(&module));
    let edges = imports("engine/src");
    assert!(edges.len() > 20, "the imports were found: {edges:?}");
    let mut wrong = Vec::new();
    for ((from, to), files) in &edges {
        match (floor(from), floor(to)) {
            (Some(below), Some(above)) if above > below => {
                wrong.push(format!("{from} imports {to}, a floor above, in {files:?}"))
            }
            (None, _) => wrong.push(format!("{from} stands on no floor: {files:?}")),
            (_, None) => wrong.push(format!("{to} stands on no floor: {files:?}")),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(circle(edges.keys()), None);
}

#[test]
fn the_disk_crate_knows_no_engine_and_its_disks_do_not_know_each_other() {
    for ((from, to), files) in imports("engine/disk/src") {
        let into_tower = DISK_TOWERS.contains(&to.as_str()) && from != DISK_ROOF;
        assert!(!into_tower, "{from} imports {to} in {files:?}");
    }
    for source in sources("engine/disk") {
        assert!(!source.code().contains("strandline::"), "{} imports the engine", source.path);
    }
}

#[test]
fn the_bench_imports_without_a_circle_and_nothing_imports_it() {
    if root().join("bench/src").is_dir() {
        assert_eq!(circle(imports("bench/src").keys()), None);
    }
    for source in ["engine", "tests"].into_iter().flat_map(sources) {
        assert!(!source.code().contains(concat!("strandline_", "bench")), "{} imports the bench", source.path);
    }
}

#[test]
fn the_parts_of_the_engine_do_not_name_the_ring() {
    // The shard is generic over its disk; only the store, which starts it, and the error that it passes on know which one.
    for source in sources("engine/src").iter().filter(|source| source.code().contains("strandline_disk::real")) {
        assert!(
            source.path.starts_with("engine/src/store/") || source.path == "engine/src/error/mod.rs",
            "{}",
            source.path
        );
    }
}

/// What a decision must not know: the clock, the disk, threads, the environment, the store that it decides about.
const NOT_FOR_DECISIONS: [&str; 10] = [
    "std::time",
    "std::fs",
    "std::io",
    "std::env",
    "std::thread",
    "std::sync",
    "async ",
    "rustix",
    "strandline::Store",
    "strandline::Config",
];

#[test]
fn decisions_are_pure_and_their_files_import_without_a_circle() {
    let decisions = sources("sweeper/src/decide");
    let mut edges = BTreeSet::new();
    for source in &decisions {
        let code = source.code();
        let found = NOT_FOR_DECISIONS.iter().find(|word| code.contains(**word));
        assert_eq!(found, None, "{}", source.path);
        let [_, from] = source.module("sweeper/src").try_into().unwrap_or_default();
        let named = named_paths(source, "sweeper/src").into_iter().filter(|path| path.len() == 2);
        edges.extend(
            named.map(|path| (from.clone(), path[1].clone())).filter(|(from, to)| from != to && !from.is_empty()),
        );
    }
    assert!(edges.len() > 20, "the imports were found: {edges:?}");
    assert_eq!(circle(edges.iter()), None);
}

#[test]
fn imports_are_found_in_every_spelling() {
    let text = "use crate::{a, b::{c, d}};\nuse super::super::e::f;\nuse super::g;\nfn h() { crate::i::j() }\n\
                // crate::k\n#[cfg(test)]\nmod tests {\n    use crate::l;\n}\n";
    let source = Source { path: "x/src/m/n/o.rs".into(), text: text.into() };
    let mut found: Vec<_> = named_paths(&source, "x/src").into_iter().map(|path| path.join("::")).collect();
    found.sort();
    assert_eq!(found, ["a", "b", "i", "m::e", "m::n::g"]);
    let edges = [("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")].map(|(from, to)| (from.to_owned(), to.to_owned()));
    assert_eq!(
        circle(edges.iter()),
        Some(vec!["b -> c".to_owned(), "c -> b".to_owned()].into_iter().chain([]).collect())
    );
}

#[test]
fn every_file_begins_by_saying_what_it_is_about() {
    for source in all_sources() {
        assert!(source.text.starts_with("//! "), "{} does not begin with a `//!` line", source.path);
    }
}

#[test]
fn no_file_and_no_function_is_too_long() {
    let mut wrong = Vec::new();
    for source in all_sources() {
        let code = source.code();
        let lines: Vec<&str> = code.lines().collect();
        if lines.len() > LINES_MAX {
            wrong.push(format!("{} has {} lines without its tests", source.path, lines.len()));
        }
        for (name, length) in functions(&lines) {
            if length > FUNCTION_LINES_MAX {
                wrong.push(format!("{}: {name} has {length} lines", source.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The functions and their lengths in lines, as rustfmt lays them out: a body ends with a brace as far in as the function is.
fn functions<'a>(lines: &[&'a str]) -> Vec<(&'a str, usize)> {
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let before_fn = line.trim_start().split("fn ").next().unwrap_or_default();
        let is_function = line.contains("fn ")
            && before_fn
                .split(' ')
                .all(|word| ["", "pub", "pub(super)", "pub(crate)", "async", "const", "unsafe"].contains(&word));
        if !is_function || line.trim_end().ends_with('}') {
            continue;
        }
        let closing = format!("{}}}", " ".repeat(indent));
        let ends = |line: &str| {
            let is_as_far_in = line.starts_with(&closing[..indent]) && !line[indent..].starts_with(' ');
            line == closing || (is_as_far_in && line.ends_with(';'))
        };
        if let Some(length) = lines[start..].iter().position(|line| ends(line)) {
            found.push((line.trim(), length + 1));
        }
    }
    found
}

#[test]
fn unsafe_code_lives_in_the_disk_crate_only() {
    for source in all_sources() {
        let is_allowed =
            source.path.starts_with("engine/disk/") || UNSAFE_BESIDE_THE_DISK.contains(&source.path.as_str());
        let words =
            [" {", " fn", " impl", " trait", " extern"].map(|behind| format!("{}{behind}", concat!("un", "safe")));
        let code = source.code();
        assert!(
            is_allowed || !words.iter().any(|word| code.contains(word.as_str())),
            "{} holds unsafe code",
            source.path
        );
        let crate_root = ["/src/lib.rs", "/src/main.rs"].iter().any(|end| source.path.ends_with(end));
        if crate_root && !source.path.starts_with("engine/disk/") {
            assert!(source.text.contains("#![forbid(unsafe_code)]"), "{} does not forbid unsafe code", source.path);
        }
    }
}

#[test]
fn no_path_of_somebodys_machine_stands_in_the_source() {
    let paths =
        ["ho", "ro", "wo", "Us"].into_iter().zip(["me", "ot", "rk", "ers"]).map(|(one, two)| format!("/{one}{two}/"));
    let paths: Vec<String> = paths.collect();
    for source in all_sources() {
        let found = paths.iter().find(|path| source.text.contains(path.as_str()));
        assert_eq!(found, None, "{}", source.path);
    }
}
