//! Two replicas: the follower takes the leader's batches at the leader's offsets, falls out of step, is truncated and goes on.
use strandline::{Batch, Config, Log, Offset, RangeNumber, Record, Store, Topic};

fn batch(log: &Log, value: &str) -> Result<Batch, strandline::BatchError> {
    let mut batch = log.batch();
    batch.push(&Record { value: Some(value.as_bytes()), ..Record::default() })?;
    batch.build()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::temp_dir().join(format!("strandline-replica-{}", std::process::id()));
    std::fs::create_dir(&directory)?;
    let stores = [Store::open(Config::new(directory.join("a")))?, Store::open(Config::new(directory.join("b")))?];
    let (topic, range) = (Topic::new("ledger")?, RangeNumber::new(0).ok_or("a range number")?);
    let [leader, follower] = [stores[0].log(&topic, range)?, stores[1].log(&topic, range)?];
    for value in ["one", "two", "three"] {
        let receipt = leader.append(batch(&leader, value)?)?.wait()?;
        follower.follow(receipt.first, batch(&follower, value)?)?.wait()?;
    }
    // A batch that the leader never had: the next one of the leader does not fit behind it.
    follower.append(batch(&follower, "stray")?)?.wait()?;
    let receipt = leader.append(batch(&leader, "four")?)?.wait()?;
    let refused = follower.follow(receipt.first, batch(&follower, "four")?)?.wait();
    println!("refused: {}", refused.expect_err("out of step"));
    let cut = follower.truncate_to(Offset(3)).wait()?;
    println!("dropped {}, now in epoch {}", cut.dropped, cut.epoch);
    follower.follow(receipt.first, batch(&follower, "four")?)?.wait()?;
    println!("sealed: {:?}", follower.seal().wait()?);
    drop(stores);
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
