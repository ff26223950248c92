//! TEMPORARY stand-in for the engine. Deleted when `strandline` exports `Store`.
#![allow(missing_docs, clippy::unwrap_used)]
use std::convert::Infallible;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

pub struct Config {
    pub root: PathBuf,
    pub segment_bytes: u64,
}
impl Config {
    pub fn new(root: impl Into<PathBuf>) -> Config {
        Config { root: root.into(), segment_bytes: 64 << 20 }
    }
}
#[derive(Clone, Copy, Default)]
pub struct Counters {
    pub commits: u64,
    pub enters: u64,
}
pub struct Topic;
impl Topic {
    pub fn new(_: &str) -> Result<Topic, Infallible> {
        Ok(Topic)
    }
}
pub struct RangeNumber;
impl RangeNumber {
    pub fn new(_: u32) -> Option<RangeNumber> {
        Some(RangeNumber)
    }
}
pub struct Offset(pub u64);
#[derive(Default)]
pub struct Record<'a> {
    pub value: Option<&'a [u8]>,
    pub key: Option<&'a [u8]>,
}
struct State {
    file: File,
    starts: Vec<u64>,
    end: u64,
    commits: u64,
}
#[derive(Clone)]
pub struct Log(Arc<Mutex<State>>);
pub struct Store(Log);
pub struct Pending;
impl Pending {
    pub fn wait(self) -> Result<(), io::Error> {
        Ok(())
    }
}
pub struct Builder(Vec<u8>);
impl Builder {
    pub fn push(&mut self, r: &Record<'_>) -> Result<(), Infallible> {
        self.0.extend_from_slice(r.value.unwrap());
        let _ = r.key;
        Ok(())
    }
    pub fn build(self) -> Result<Vec<u8>, Infallible> {
        Ok(self.0)
    }
}
pub struct Batch(Vec<u8>);
impl Batch {
    pub fn payload(&self) -> &[u8] {
        &self.0
    }
    pub fn record_count(&self) -> u32 {
        1
    }
}
pub struct Read {
    pub batches: Vec<Batch>,
    pub next: Offset,
}
pub struct PendingRead(io::Result<Read>);
impl PendingRead {
    pub fn wait(self) -> io::Result<Read> {
        self.0
    }
}
impl Store {
    pub fn open(c: Config) -> io::Result<Store> {
        let dir = c.root.join("bench-r0-s0");
        std::fs::create_dir_all(&dir)?;
        let dsync = rustix::fs::OFlags::DSYNC.bits() as i32;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(dsync)
            .open(dir.join("data.0"))?;
        if file.metadata()?.len() < c.segment_bytes {
            file.set_len(c.segment_bytes)?;
        }
        let (mut end, mut starts, len) = (0u64, vec![], file.metadata()?.len());
        let mut whole = vec![0u8; 1 << 16];
        while end + 4 <= len {
            let mut l = [0u8; 4];
            file.read_exact_at(&mut l, end)?;
            let n = u32::from_le_bytes(l);
            if n == 0 {
                break;
            }
            file.read_exact_at(&mut whole[..n as usize], end + 4)?;
            starts.push(end);
            end += 4 + u64::from(n);
        }
        Ok(Store(Log(Arc::new(Mutex::new(State { file, starts, end, commits: 0 })))))
    }
    pub fn capabilities(&self) -> &'static str {
        "stub"
    }
    pub fn counters(&self) -> Counters {
        let c = self.0.0.lock().unwrap().commits;
        Counters { commits: c, enters: c }
    }
    pub fn log(&self, _: &Topic, _: RangeNumber) -> Result<Log, Infallible> {
        Ok(self.0.clone())
    }
    pub fn close(self) -> Result<(), Infallible> {
        Ok(())
    }
}
impl Log {
    pub fn batch(&self) -> Builder {
        Builder(Vec::new())
    }
    pub fn end(&self) -> Offset {
        Offset(self.0.lock().unwrap().starts.len() as u64)
    }
    pub fn append(&self, b: Vec<u8>) -> io::Result<Pending> {
        let mut s = self.0.lock().unwrap();
        let mut frame = (b.len() as u32).to_le_bytes().to_vec();
        frame.extend(b);
        let at = s.end;
        s.file.write_all_at(&frame, at)?;
        s.starts.push(at);
        s.end += frame.len() as u64;
        s.commits += 1;
        Ok(Pending)
    }
    pub fn read(&self, o: Offset, bytes: u32) -> PendingRead {
        let s = self.0.lock().unwrap();
        let mut read = Read { batches: vec![], next: Offset(o.0) };
        let mut sum = 0;
        for i in o.0 as usize..s.starts.len() {
            let (a, z) = (s.starts[i], *s.starts.get(i + 1).unwrap_or(&s.end));
            sum += z - a;
            if sum > u64::from(bytes) {
                break;
            }
            let mut v = vec![0; (z - a - 4) as usize];
            if let Err(e) = s.file.read_exact_at(&mut v, a + 4) {
                return PendingRead(Err(e));
            }
            read.batches.push(Batch(v));
            read.next.0 += 1;
        }
        PendingRead(Ok(read))
    }
}
