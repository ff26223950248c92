//! Follows a log from a point in time on, while another thread appends to it.
use std::time::{SystemTime, UNIX_EPOCH};
use strandline::{Config, RangeNumber, ReadError, Record, Store, Time, Topic};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::temp_dir().join(format!("strandline-follow-{}", std::process::id()));
    let store = Store::open(Config::new(&directory))?;
    let log = store.log(&Topic::new("events")?, RangeNumber::default())?;

    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
    let mut follower = log.follower(log.offset_at(Time::Store(now_ms)).wait()?);
    let reader = std::thread::spawn(move || {
        loop {
            // In an async runtime: `follower.next(64 << 10).await`.
            match follower.next_blocking(64 << 10, None) {
                Ok(read) => {
                    for record in read.batches.iter().flat_map(|batch| batch.records()).flatten() {
                        println!("{}: {}", record.offset, String::from_utf8_lossy(record.value.unwrap_or_default()));
                    }
                }
                Err(ReadError::Closed) => return,
                Err(error) => return eprintln!("{error}"),
            }
        }
    });
    for value in ["tide", "wrack", "shingle"] {
        let mut batch = log.batch();
        batch.push(&Record { value: Some(value.as_bytes()), ..Record::default() })?;
        log.append_blocking(batch.build()?)?;
    }
    std::thread::sleep(std::time::Duration::from_millis(100));
    store.close()?; // Wakes the follower.
    reader.join().map_err(|_| "the reader panicked")?;
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
