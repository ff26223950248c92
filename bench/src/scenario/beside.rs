//! Beside: one producer whose every record is durable before the next, alone or while something else goes on.

use super::{Context, Scale};
use crate::error::BenchError;
use crate::noise::noise;
use crate::subject::Subject;
use crate::window::Window;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const RECORD_BYTES: usize = 16 << 10;
/// Fewer appends tell no p99.
const APPENDS_MIN: u64 = 1_000;
const APPENDS_MIN_OF_SMOKE: u64 = 20;

/// Appends for so long.
pub fn append_alone(context: &Context<'_>, subject: &Subject, time: Duration) -> Result<Window, BenchError> {
    let mut window = Window::new();
    let end = Instant::now() + time;
    subject.timed(&mut window, |window| append(context, subject, window, || Instant::now() < end))?;
    Ok(window)
}

/// Appends until `work` is done, which another thread does, and says what came of that.
pub fn append_beside<T: Send>(
    context: &Context<'_>,
    subject: &Subject,
    work: impl FnOnce() -> Result<T, BenchError> + Send,
) -> Result<(Window, T), BenchError> {
    let (mut window, mut done, over) = (Window::new(), None, AtomicBool::new(false));
    subject.timed(&mut window, |window| {
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let done = work();
                over.store(true, Ordering::Release);
                done
            });
            append(context, subject, window, || !over.load(Ordering::Acquire))?;
            done = Some(worker.join().expect("the work does not panic")?);
            Ok(())
        })
    })?;
    // The rings were entered for the work as well.
    window.enters = 0;
    Ok((window.without_cpu(), done.expect("it was joined")))
}

/// Appends while it is wanted, and as many records as a p99 needs.
fn append(
    context: &Context<'_>,
    subject: &Subject,
    window: &mut Window,
    wanted: impl Fn() -> bool,
) -> Result<(), BenchError> {
    let appends_min = if context.plan.scale == Scale::Smoke { APPENDS_MIN_OF_SMOKE } else { APPENDS_MIN };
    let (value, mut started) = (noise(RECORD_BYTES), Instant::now());
    while wanted() || window.records < appends_min {
        context.interrupt.check()?;
        subject.lane().append(&value)?;
        let ended = Instant::now();
        window.took_until(ended, ended - started);
        window.records += 1;
        window.bytes += RECORD_BYTES as u64;
        started = ended;
    }
    Ok(())
}
