//! The scan of a file: the walk over its batches, however its bytes come in, and the search for batches behind damage.

use super::{UID, choices, cut, sign};
use std::ops::ControlFlow;
use strandline::format::batch::{ALIGN, BatchHeader, HEADER_BYTES, PAYLOAD_BYTES_MAX};
use strandline::format::scan::{Fed, Scan, Stop, find_batches, first_nonzero, last_nonzero};
use strandline_disk::{BLOCK, Position};

const START: Position = Position(BLOCK as u64);

type Seen = Vec<(Position, BatchHeader)>;

/// Four bytes of choices, then what stands in the file from its first batch on.
pub fn check(bytes: &[u8]) {
    let (choices, file) = choices::<4>(cut(bytes));
    let pieces = choices.map(|choice| 1 + usize::from(choice) * 3);
    walk(file, pieces);
    let mut signed = file.to_vec();
    sign::batches(&mut signed, UID, START, |batch| batch == usize::from(choices[0]) % 16);
    walk(&signed, pieces);
    assert_eq!(first_nonzero(file), file.iter().position(|&byte| byte != 0));
    assert_eq!(last_nonzero(file), file.iter().rposition(|&byte| byte != 0));
}

fn walk(file: &[u8], pieces: [usize; 4]) {
    let (seen, stop) = scanned(file, [usize::MAX; 4]);
    assert_eq!(scanned(file, pieces), (seen.clone(), stop), "a scan says the same however its bytes come in");
    let end = START.plus(file.len());
    let mut next = START;
    for (position, header) in &seen {
        assert_eq!(*position, next, "each batch stands where the one before it ends");
        assert!(position.plus(HEADER_BYTES + header.payload_bytes as usize) <= end, "within the file");
        next = position.plus(header.total_length());
    }
    assert_eq!(stop.at, next);
    let found = find_batches(file, START, UID, PAYLOAD_BYTES_MAX);
    assert!(found.len() <= file.len() / HEADER_BYTES, "no two of them share a byte of a header");
    let mut free = START;
    for batch in &found {
        assert!(batch.position >= free && batch.position.0.is_multiple_of(ALIGN as u64), "{batch:?}");
        assert!(batch.position.plus(HEADER_BYTES) <= end, "{batch:?}");
        let ends = batch.position.plus(HEADER_BYTES + batch.header.payload_bytes as usize);
        assert!(!batch.payload_ok || ends <= end, "{batch:?}");
        free = batch.position.plus(batch.header.total_length());
    }
    let good = found.iter().take(seen.len()).map(|batch| (batch.position, batch.header));
    assert_eq!(good.collect::<Seen>(), seen, "what the walk saw, the search finds");
    assert!(found.iter().take(seen.len()).all(|batch| batch.payload_ok));
}

fn scanned(file: &[u8], pieces: [usize; 4]) -> (Seen, Stop) {
    let mut scan = Scan::new(UID, START, PAYLOAD_BYTES_MAX);
    let (mut seen, mut rest) = (Vec::new(), file);
    for length in pieces.into_iter().cycle() {
        let (piece, behind) = rest.split_at(length.min(rest.len()));
        rest = behind;
        let fed = scan.feed(piece, &mut |at, header| {
            seen.push((at, *header));
            ControlFlow::Continue(())
        });
        if rest.is_empty() || matches!(fed, Fed::Stopped(_)) {
            break;
        }
    }
    (seen, scan.finish())
}
