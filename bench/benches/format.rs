//! What the formats cost without a disk: building a batch, and scanning a segment's bytes as recovery does.
//!
//! `cargo bench -p strandline-bench`; `-- --test` runs each once.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::ops::ControlFlow;
use strandline::batch::{Batch, BatchBuilder, BatchLimits};
use strandline::format::batch::BatchHeader;
use strandline::format::scan::{Fed, Scan};
use strandline::id::Uid;
use strandline::{Offset, Record};
use strandline_disk::Position;

const LIMITS: BatchLimits = BatchLimits { records_max: 65_536, bytes_max: 1 << 20 };
const UID: Uid = Uid(7);

/// Records per batch, and bytes per record.
const SHAPES: [(u32, usize); 4] = [(1, 1 << 10), (1, 16 << 10), (16, 1 << 10), (1_000, 100)];

/// Bytes that are scanned at a time, as recovery reads them.
const READ_BYTES: usize = 1 << 20;

fn build(buffer: Vec<u8>, records: u32, value: &[u8]) -> Batch {
    let mut builder = BatchBuilder::with_buffer(LIMITS, buffer);
    for _ in 0..records {
        builder.push(&Record { value: Some(value), ..Record::default() }).expect("within the limits");
    }
    builder.build().expect("not empty")
}

fn building(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("build");
    for (records, bytes) in SHAPES {
        let value = vec![0xa5; bytes];
        group.throughput(Throughput::Bytes(u64::from(records) * bytes as u64));
        group.bench_function(BenchmarkId::from_parameter(format!("{records} x {bytes}")), |bencher| {
            let mut buffer = Vec::with_capacity(LIMITS.bytes_max as usize);
            bencher.iter(|| buffer = build(std::mem::take(&mut buffer), records, black_box(&value)).into_payload());
        });
    }
    group.finish();
}

fn scanning(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("scan");
    for (records, bytes) in SHAPES {
        let data = segment(&build(Vec::new(), records, &vec![0xa5; bytes]));
        group.throughput(Throughput::Bytes(data.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(format!("{records} x {bytes}")), |bencher| {
            bencher.iter(|| scan(black_box(&data)));
        });
    }
    group.finish();
}

/// As many copies of the batch as a read holds whole, as they stand in a file from position 0 on.
fn segment(batch: &Batch) -> Vec<u8> {
    let mut data = Vec::with_capacity(READ_BYTES);
    let mut next = Offset(0);
    loop {
        let end = next.plus(u64::from(batch.record_count()));
        let header = BatchHeader {
            payload_bytes: batch.payload().len() as u32,
            payload_crc: batch.payload_crc(),
            first: next,
            end,
            records: batch.record_count(),
            flags: batch.flags(),
            uncompressed_bytes: batch.payload().len() as u32,
            ..BatchHeader::default()
        };
        if data.len() + header.total_length() > READ_BYTES {
            return data;
        }
        data.extend(header.encode(UID, Position(data.len() as u64)));
        data.extend(batch.payload());
        data.resize(data.len() + header.padding(), 0);
        next = end;
    }
}

fn scan(data: &[u8]) -> u64 {
    let mut records = 0;
    let mut scan = Scan::new(UID, Position(0), LIMITS.bytes_max);
    let fed = scan.feed(data, &mut |_, header: &BatchHeader| {
        records += u64::from(header.records);
        ControlFlow::Continue(())
    });
    assert_eq!(fed, Fed::More, "the scan goes through all of it");
    assert_eq!(scan.at(), Position(data.len() as u64));
    records
}

criterion_group!(benches, building, scanning);
criterion_main!(benches);
