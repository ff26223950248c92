//! Opens a store, appends three records durably, reads them back.
use strandline::{Config, Offset, RangeNumber, Record, Store, Topic};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::temp_dir().join(format!("strandline-example-{}", std::process::id()));
    let store = Store::open(Config::new(&directory))?;
    let log = store.log(&Topic::new("events")?, RangeNumber::new(0).ok_or("a range number")?)?;

    let mut batch = log.batch();
    for value in ["tide", "wrack", "shingle"] {
        batch.push(&Record { value: Some(value.as_bytes()), ..Record::default() })?;
    }
    // `append` answers at once; the answer it gives comes when the batch is on stable storage.
    let receipt = log.append(batch.build()?)?.wait()?;
    println!("offsets {} to {} are durable", receipt.first, receipt.end);

    let read = log.read(Offset(0), 64 << 10).wait()?;
    for batch in &read.batches {
        for record in batch.records() {
            let record = record?;
            println!("{}: {}", record.offset, String::from_utf8_lossy(record.value.unwrap_or_default()));
        }
    }
    store.close()?;
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
