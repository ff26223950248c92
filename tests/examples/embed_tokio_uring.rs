//! Embedding in a tokio-uring broker, whose network side runs on rings of its own. It pins its own io-uring, so it is no
//! dependency of the engine: the two meet in `Pending`, which is a future like any other.
use strandline::{Config, Offset, RangeNumber, Record, Store, Topic};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::temp_dir().join(format!("strandline-tokio-uring-{}", std::process::id()));
    let store = Store::open(Config::new(&directory))?;
    let log = store.log(&Topic::new("wire")?, RangeNumber::new(0).ok_or("a range number")?)?;
    tokio_uring::start(async {
        // What a broker would read from a socket comes from a pair of them here.
        let listener = tokio_uring::net::TcpListener::bind("127.0.0.1:0".parse()?)?;
        let client = tokio_uring::net::TcpStream::connect(listener.local_addr()?).await?;
        let (server, _) = listener.accept().await?;
        client.write_all(b"hello, strand".to_vec()).await.0?;
        let (read, bytes) = server.read(vec![0; 64]).await;
        let mut batch = log.batch();
        batch.push(&Record { value: Some(&bytes[..read?]), ..Record::default() })?;
        let receipt = log.append(batch.build()?)?.await?;
        let back = log.read(receipt.first, 1 << 10).await?;
        println!("offset {} of {} batch(es) is durable", receipt.first, back.batches.len());
        assert_eq!(log.bounds().end, Offset(1));
        Ok::<(), Box<dyn std::error::Error>>(())
    })?;
    store.close()?;
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
