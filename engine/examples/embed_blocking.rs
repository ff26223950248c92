//! Embedding in a broker of plain threads: each producer blocks on its own appends, and the store commits them together.
use std::sync::Arc;
use strandline::{Config, Offset, RangeNumber, Record, Store, Topic};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::temp_dir().join(format!("strandline-blocking-{}", std::process::id()));
    let store = Arc::new(Store::open(Config::new(&directory))?);
    let log = store.log(&Topic::new("orders")?, RangeNumber::new(0).ok_or("a range number")?)?;
    let producers: Vec<_> = (0..4)
        .map(|producer| {
            let log = log.clone();
            std::thread::spawn(move || {
                for number in 0..25 {
                    let mut batch = log.batch();
                    let value = format!("order {number} of producer {producer}");
                    batch.push(&Record { value: Some(value.as_bytes()), ..Record::default() }).expect("room");
                    // Waits for room where the store has too much in hand, and then until the record is durable.
                    log.append_blocking(batch.build().expect("a record")).expect("an append");
                }
            })
        })
        .collect();
    producers.into_iter().for_each(|producer| producer.join().expect("no panic"));
    println!("{} records are durable", log.bounds().end);
    let read = log.read(Offset(0), 64 << 10).wait()?;
    println!("the first batch holds {} record(s)", read.batches[0].record_count());
    Arc::into_inner(store).ok_or("somebody holds the store")?.close()?;
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
