//! Load: how much of the machine others used while the run measured. Figures from a busy machine say little.

use std::time::Instant;

/// Ticks per second in `/proc` (USER_HZ), on every architecture that Rust's Linux targets run on.
const TICKS_PER_SECOND: f64 = 100.0;

/// A stretch of time that is being watched.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    started: Instant,
    others: u64,
}

impl Load {
    /// Watches from now on.
    pub fn watch() -> Load {
        Load { started: Instant::now(), others: others() }
    }

    /// How many cores others kept busy since then, on average. Time that a hypervisor kept for itself counts as theirs.
    pub fn cores_of_others(self) -> f64 {
        let ticks = others().saturating_sub(self.others) as f64;
        ticks / TICKS_PER_SECOND / self.started.elapsed().as_secs_f64().max(0.01)
    }
}

/// Ticks that were spent on anything but this process and its children that have ended.
fn others() -> u64 {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    busy(&read("/proc/stat")).saturating_sub(own(&read("/proc/self/stat")))
}

/// `cpu user nice system idle iowait irq softirq steal ..` (proc_stat(5)): all but idle and iowait. Guests are in user.
fn busy(stat: &str) -> u64 {
    let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1).take(8);
    let counted = fields.enumerate().filter(|(at, _)| !matches!(at, 3 | 4));
    counted.filter_map(|(_, ticks)| ticks.parse::<u64>().ok()).sum()
}

/// `pid (name) state ..`: fields 14 to 17 are the time of the process and of its children (proc_pid_stat(5)).
fn own(stat: &str) -> u64 {
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    behind_name.split_whitespace().skip(11).take(4).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_taken_from_the_right_fields() {
        assert_eq!(busy("cpu  1 20 300 4000 50000 600000 7000000 80000000 9 9\ncpu0 5 5 5"), 87_600_321);
        assert_eq!(own("7 (a b) c) S 1 1 1 0 -1 4194304 1 2 3 4 10 200 3000 40000 20 0"), 43_210);
        assert_eq!((busy(""), own("")), (0, 0));
    }

    #[test]
    fn this_machine_has_no_more_cores_than_it_has() {
        let load = Load::watch();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        assert!((0.0..=4.0 * cores + 4.0).contains(&load.cores_of_others()));
    }
}
