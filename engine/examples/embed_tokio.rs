//! Embedding in a tokio broker: appends and reads are futures, at the level that each producer asks for.
use strandline::{Config, Level, Offset, RangeNumber, Record, Store, Topic};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::temp_dir().join(format!("strandline-tokio-{}", std::process::id()));
    let store = Store::open(Config::new(&directory))?;
    let log = store.log(&Topic::new("clicks")?, RangeNumber::new(0).ok_or("a range number")?)?;
    for number in 0..100 {
        let mut batch = log.batch();
        batch.push(&Record { value: Some(format!("click {number}").as_bytes()), ..Record::default() })?;
        let level = if number % 10 == 9 { Level::Durable } else { Level::Accepted };
        let receipt = log.append_with(batch.build()?, level)?.await?;
        if level == Level::Durable {
            println!("all up to {} is durable", receipt.end);
        }
    }
    let read = log.read(Offset(0), 64 << 10).await?;
    println!("read {} batches", read.batches.len());
    tokio::task::spawn_blocking(move || store.close()).await??;
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
