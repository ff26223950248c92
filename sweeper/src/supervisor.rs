//! The supervisor: a thread that sees a worker die and starts it again, and that sees policies change.

use crate::bell::Bell;
use crate::worker::Tended;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often it is looked whether a policy has changed: one read of a number in memory.
const LOOK: Duration = Duration::from_secs(1);

/// Keeps workers alive until it is dropped, which stops them: a pass that is under way ends first.
pub(crate) struct Supervisor {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Supervisor")
    }
}

impl Supervisor {
    /// Starts it, and the workers with it. `look` is called now and then, about once a second.
    pub(crate) fn start(
        workers: Vec<Box<dyn Tended>>,
        bell: Arc<Bell>,
        look: impl FnMut() + Send + 'static,
    ) -> std::io::Result<Supervisor> {
        let of_thread = bell.clone();
        let thread = std::thread::Builder::new().name("strandline-supervisor".to_owned());
        let thread = thread.spawn(move || supervise(&workers, &of_thread, look))?;
        Ok(Supervisor { bell, thread: Some(thread) })
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.bell.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn supervise(workers: &[Box<dyn Tended>], bell: &Bell, mut look: impl FnMut()) {
    loop {
        let now = Instant::now();
        let next = workers.iter().filter_map(|worker| worker.tend(now)).min();
        look();
        let at_most = next.map_or(LOOK, |next| next.saturating_duration_since(Instant::now()).min(LOOK));
        if !bell.wait(at_most) {
            break;
        }
    }
    workers.iter().for_each(|worker| worker.stop());
    workers.iter().for_each(|worker| worker.join());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::Reading;
    use crate::worker::{Every, Pass, Worker};
    use std::sync::atomic::{AtomicU64, Ordering};
    use strandline::{Config, Store};

    /// A kind of pass that does what a test says.
    #[derive(Default)]
    struct Play {
        made: Arc<AtomicU64>,
        ended: Arc<AtomicU64>,
        takes: Duration,
    }

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    struct Script {
        /// So many passes end in the death of the thread, outside of what catches a panic.
        deadly: u64,
        /// So many passes panic, after those.
        panicking: u64,
        /// So many are skipped, after those.
        skipped: u64,
        /// So many leave something for the next one, after those.
        partial: u64,
    }

    impl Pass for Play {
        const NAME: &'static str = "play";
        type Limits = Script;
        type Report = (bool, bool);
        type Skip = &'static str;
        type Counts = u64;

        fn pass(&mut self, _: &Store, _: Reading, script: &Script) -> Result<(bool, bool), &'static str> {
            let number = self.made.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(self.takes);
            self.ended.fetch_add(1, Ordering::SeqCst);
            let panics = script.deadly..script.deadly + script.panicking;
            let skips = panics.end..panics.end + script.skipped;
            assert!(!panics.contains(&number), "a deliberate panic");
            if skips.contains(&number) {
                return Err("not ready");
            }
            Ok((number < script.deadly, number < skips.end + script.partial))
        }

        fn is_due_again((dies, again): &(bool, bool)) -> bool {
            assert!(!dies, "a deliberate death");
            *again
        }

        fn cause(_: &&'static str) -> &'static str {
            "not_ready"
        }

        fn count(_: &(bool, bool), counts: &mut u64) {
            *counts += 1;
        }
    }

    struct Stage {
        worker: Worker<Play>,
        made: Arc<AtomicU64>,
        ended: Arc<AtomicU64>,
        supervisor: Option<Supervisor>,
        _root: tempfile::TempDir,
    }

    impl Stage {
        fn new(script: Script, interval: Duration, takes: Duration) -> Stage {
            let root = tempfile::tempdir().expect("a directory");
            let store = Arc::new(Store::open(Config::new(root.path().join("store"))).expect("a store"));
            let play = Play { takes, ..Play::default() };
            let (made, ended, bell) = (play.made.clone(), play.ended.clone(), Arc::<Bell>::default());
            let worker = Worker::new(store, play, Every { interval, limits: script }, bell.clone());
            let supervisor = Supervisor::start(vec![Box::new(worker.clone())], bell, || {}).expect("a thread");
            Stage { worker, made, ended, supervisor: Some(supervisor), _root: root }
        }

        fn until(&self, is_so: impl Fn(&Stage) -> bool) {
            let end = Instant::now() + Duration::from_secs(20);
            while !is_so(self) {
                assert!(Instant::now() < end, "{:?} {:?}", self.worker, self.worker.metrics());
                std::thread::sleep(Duration::from_millis(1));
            }
        }

        fn made(&self) -> u64 {
            self.made.load(Ordering::SeqCst)
        }
    }

    const RARELY: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_worker_whose_thread_dies_is_started_again_later_each_time_and_counted() {
        let began = Instant::now();
        let stage = Stage::new(Script { deadly: 3, ..Script::default() }, RARELY, Duration::ZERO);
        stage.until(|stage| stage.worker.metrics().deaths == 1);
        stage.until(|stage| stage.worker.health().passes == 1);
        let (health, metrics) = (stage.worker.health(), stage.worker.metrics());
        assert_eq!((metrics.deaths, stage.made()), (3, 4), "each death took its pass along");
        assert!(health.is_well(), "{health:?}");
        // 100, 200 and 400 ms.
        assert!(began.elapsed() >= Duration::from_millis(700), "{:?}", began.elapsed());
    }

    #[test]
    fn a_worker_that_is_dead_is_not_well() {
        let stage = Stage::new(Script { deadly: u64::MAX / 2, ..Script::default() }, RARELY, Duration::ZERO);
        stage.until(|stage| stage.worker.metrics().deaths > 0 && !stage.worker.health().is_alive);
        assert!(!stage.worker.health().is_well());
    }

    #[test]
    fn a_pass_that_panics_and_one_that_is_skipped_are_told_apart_and_end_no_worker() {
        let script = Script { panicking: 1, skipped: 2, ..Script::default() };
        let stage = Stage::new(script, RARELY, Duration::ZERO);
        stage.until(|stage| stage.worker.health().passes == 1);
        assert!(stage.worker.health().last_panicked && !stage.worker.health().is_well());
        assert!(stage.worker.health().last_pass_at_ms.is_some() && stage.worker.health().last_done_at_ms.is_none());
        for skipped in 1..=2 {
            stage.worker.nudge();
            stage.until(|stage| stage.worker.health().passes == 1 + skipped);
            assert!(stage.worker.health().last_skip.is_some() && !stage.worker.health().is_well());
        }
        stage.worker.nudge();
        stage.until(|stage| stage.worker.health().is_well());
        let metrics = stage.worker.metrics();
        assert_eq!((metrics.panicked, metrics.deaths, metrics.counts, metrics.durations.count()), (1, 0, 1, 1));
        assert_eq!(metrics.skipped.into_iter().collect::<Vec<_>>(), [("not_ready", 2)]);
    }

    #[test]
    fn passes_follow_each_other_at_once_while_there_is_more_to_do_and_then_wait() {
        let stage = Stage::new(Script { partial: 5, ..Script::default() }, RARELY, Duration::ZERO);
        stage.until(|stage| stage.worker.health().passes == 6);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(stage.made(), 6);
    }

    #[test]
    fn slow_passes_do_not_pile_up_however_often_one_is_asked_for() {
        let stage = Stage::new(Script::default(), RARELY, Duration::from_millis(200));
        stage.until(|stage| stage.made() == 1);
        assert!(stage.worker.health().under_way_since_ms.is_some());
        (0..100).for_each(|_| stage.worker.nudge());
        stage.until(|stage| stage.worker.health().passes == 2);
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(stage.made(), 2, "one more for all of them");
        // A pass that takes longer than its interval: the interval begins when it ends.
        let stage = Stage::new(Script::default(), Duration::from_millis(100), Duration::from_millis(200));
        let began = Instant::now();
        stage.until(|stage| stage.ended.load(Ordering::SeqCst) == 3);
        assert!(began.elapsed() >= Duration::from_millis(3 * 200 + 2 * 90), "{:?}", began.elapsed());
    }

    #[test]
    fn a_stop_during_a_pass_comes_into_force_behind_it() {
        let mut stage = Stage::new(Script::default(), RARELY, Duration::from_millis(200));
        stage.until(|stage| stage.made() == 1);
        assert_eq!(stage.ended.load(Ordering::SeqCst), 0);
        drop(stage.supervisor.take());
        assert_eq!((stage.made(), stage.ended.load(Ordering::SeqCst)), (1, 1), "it was waited for");
        assert_eq!(stage.worker.metrics().deaths, 0, "a stop is no death");
        stage.worker.nudge();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(stage.made(), 1, "nothing is made by a worker that was stopped");
    }
}
