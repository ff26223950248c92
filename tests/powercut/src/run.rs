//! Run: workloads under a record of their disk, and cuts of each.

use crate::child::{self, Errand, Outcome};
use crate::clock::Clock;
use crate::cut::{Cutter, Event, Left, MODES, Mode};
use crate::disk::{Disk, Recorded};
use crate::error::{Trouble, system};
use crate::fuse;
use crate::image::Image;
use crate::interrupt::Interrupt;
use crate::job::{Again, Checked, Job, Task, Worked, save, sentences};
use crate::mounted::Device;
use crate::options::Options;
use crate::random::Random;
use crate::report::{Counts, Report};
use crate::server::{Server, lock};
use crate::shape::{Defect, Io, Shape, Sync};
use crate::verb::{Span, VERBS};
use serde::Deserialize;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use strandline_tests::tiers::promise::{Broken, Promise};
use tempfile::TempDir;

/// The longest that a workload lasts.
const WORKLOAD_MS_MAX: u64 = 10_000;

/// After how long a job hangs.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// Cuts of a run. Fields are dropped in their order: the server last but for the directory that it stands in.
pub struct Run<'a> {
    options: &'a Options,
    interrupt: Interrupt,
    report: Report,
    server: Server,
    place: TempDir,
}

/// A workload that was recorded.
struct Work {
    shape: Shape,
    recorded: Recorded,
    worked: Worked,
}

/// A cut that is to be made.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    number: u64,
    position: usize,
    mode: Mode,
}

/// One recovery in so many is cut too.
const AGAIN_ONE_IN: u64 = 3;

impl<'a> Run<'a> {
    /// Serves disks at a temporary directory in memory.
    ///
    /// # Errors
    /// There is no FUSE, or mounting is not for us.
    pub fn new(options: &'a Options, interrupt: Interrupt) -> Result<Run<'a>, Trouble> {
        let place = fuse::place().map_err(system("a temporary directory"))?;
        for name in ["disks", "mounted"] {
            std::fs::create_dir(place.path().join(name)).map_err(system("a directory to mount at"))?;
        }
        let server = Server::start(&place.path().join("disks")).map_err(system("mounting FUSE: this needs root"))?;
        let report = Report::new(options.fs, options.seed.unwrap_or(1), options.sabotage);
        Ok(Run { options, interrupt, report, server, place })
    }

    /// Makes as many cuts as were asked for.
    ///
    /// # Errors
    /// What keeps the run from going on. Violations stand in the report.
    pub fn run(mut self) -> Result<Report, Trouble> {
        let since = Instant::now();
        let until = self.options.seconds.map(|seconds| since + Duration::from_secs(seconds));
        let is_over = |report: &Report| {
            let late = until.is_some_and(|until| Instant::now() >= until);
            let found = self.options.expect_violation && !report.violations.is_empty();
            late || found || report.total.cuts >= self.options.cuts
        };
        let mut number = 0;
        while !is_over(&self.report) {
            let work = self.work(shape(self.options, number))?;
            let cuts = self.options.cuts_each.min(self.options.cuts - self.report.total.cuts);
            for strict in [false, true] {
                let mut cutter = Cutter::new(&work.recorded.base, &work.recorded.events, strict);
                for wanted in
                    wanted(&work, self.options.mode, cuts).iter().filter(|w| (w.mode == Mode::Strict) == strict)
                {
                    if is_over(&self.report) {
                        break;
                    }
                    let mut random = Random::new(work.shape.seed, wanted.number + 1_000);
                    let left = cutter.cut(wanted.position, wanted.mode, &mut random);
                    self.cut(&work, *wanted, left)?;
                }
            }
            number += 1;
        }
        self.report.took_ms = since.elapsed().as_millis() as u64;
        Ok(self.report)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn job(&self, shape: Shape, task: Task) -> Job {
        let (root, clock, answer) = (self.path("mounted/store"), self.path("clock"), self.path("answer"));
        Job { root, clock, answer, shape, task }
    }

    fn send<T: for<'b> Deserialize<'b>>(&self, job: &Job) -> Result<Outcome<T>, Trouble> {
        let (answer, place) = (job.answer.as_path(), self.place.path());
        let errand = Errand { arguments: &[], answer, place, limit: HANGS_AFTER, release: &|| {} };
        child::run(job, &errand, &self.interrupt)
    }

    /// Makes a file system, runs a workload on it, and gives all that its disk was asked to do.
    fn work(&mut self, shape: Shape) -> Result<Work, Trouble> {
        self.interrupt.check()?;
        let (number, file, disk) = self.server.put_up(Disk::new(Image::new(self.options.fs.disk_bytes())));
        let device = Device::attach(&file)?;
        device.format(self.options.fs)?;
        let mounted = device.mount(self.options.fs, &self.path("mounted"))?;
        crate::mounted::run("sync", &["--file-system", &self.path("mounted").to_string_lossy()])?;
        lock(&disk).begin(Clock::make(&self.path("clock")).map_err(system("the clock"))?);
        self.server.delay_one_in(if shape.seed.is_multiple_of(3) { 0 } else { 6 });
        let task = Task::Work { bytes_max: self.options.write_mb << 20, time_ms: WORKLOAD_MS_MAX };
        let outcome = self.send::<Result<Worked, String>>(&self.job(shape, task));
        let recorded = lock(&disk).end();
        self.server.delay_one_in(0);
        drop(mounted);
        self.server.take_down(number);
        let worked = match outcome? {
            Outcome::Answered(Ok(worked)) => worked,
            Outcome::Answered(Err(why)) | Outcome::Died(why) => {
                return Err(Trouble::Workload(format!("{why} (seed {}, {shape:?})", shape.seed)));
            }
        };
        save(&self.path("history"), &worked.steps).map_err(system("the history"))?;
        self.report.workloads += 1;
        self.report.barriers += worked.barriers;
        let (asked, (_, in_force)) = (shape.sync, worked.in_force);
        self.report.barrier_refused += u64::from(asked == Sync::Barrier && in_force != Sync::Barrier);
        for (verb, done) in &worked.done {
            self.report.verbs.entry(*verb).or_default().done += done;
        }
        let recorded = recorded.ok_or_else(|| Trouble::Workload("its disk kept no record".to_owned()))?;
        Ok(Work { shape, recorded, worked })
    }

    /// Checks what one cut left.
    fn cut(&mut self, work: &Work, wanted: Wanted, left: Left) -> Result<(), Trouble> {
        self.interrupt.check()?;
        let (checked, recorded) = self.check(work, wanted, &left, None)?;
        let whole = checked.violations.is_empty() && !checked.refused;
        if !checked.refused {
            self.report.met(&work.worked.spans, wanted.position as u64);
        }
        self.note(work, wanted, &left, &checked)?;
        if whole && wanted.number.is_multiple_of(AGAIN_ONE_IN) {
            self.cut_again(work, wanted, &recorded, checked)?;
        }
        Ok(())
    }

    /// Cuts the recovery after a cut, anywhere.
    fn cut_again(&mut self, work: &Work, wanted: Wanted, before: &Recorded, checked: Checked) -> Result<(), Trouble> {
        let mut random = Random::new(work.shape.seed, wanted.number + 2_000);
        let position = random.below(before.events.len() as u64 + 1);
        let mut cutter = Cutter::new(&before.base, &before.events, wanted.mode == Mode::Strict);
        let left = cutter.cut(position as usize, wanted.mode, &mut random);
        let (checked, _) = self.check(work, wanted, &left, Some(Again { position, seen: checked.seen }))?;
        self.report.again += 1;
        self.note(work, wanted, &left, &checked)
    }

    fn note(&mut self, work: &Work, wanted: Wanted, left: &Left, checked: &Checked) -> Result<(), Trouble> {
        let Left { image, dropped, torn } = left;
        let (dropped, torn) = (*dropped, *torn);
        let mut counts = Counts { cuts: 1, dropped, torn, ..Counts::default() };
        (counts.batches, counts.cleared) = (checked.batches, checked.torn_bytes);
        counts.refused = u64::from(checked.refused);
        if !checked.violations.is_empty() {
            counts.violations = 1;
            self.violated(work, wanted, image, checked)?;
        }
        let (io, sync) = work.worked.in_force;
        self.report.add(io, sync, wanted.mode, counts);
        Ok(())
    }

    /// Mounts what a cut left and has it checked. Gives also what the disk was asked to do meanwhile.
    fn check(
        &mut self,
        work: &Work,
        wanted: Wanted,
        left: &Left,
        again: Option<Again>,
    ) -> Result<(Checked, Recorded), Trouble> {
        let mut disk = Disk::new(left.image.clone());
        disk.begin(Clock::make(&self.path("clock")).map_err(system("the clock"))?);
        let (number, file, disk) = self.server.put_up(disk);
        let checked = self.check_disk(work, (wanted, left.torn > 0), &file, again);
        self.server.take_down(number);
        let recorded = lock(&disk).end().ok_or_else(|| Trouble::Workload("its disk kept no record".to_owned()))?;
        Ok((checked?, recorded))
    }

    fn check_disk(
        &self,
        work: &Work,
        (wanted, torn): (Wanted, bool),
        file: &Path,
        again: Option<Again>,
    ) -> Result<Checked, Trouble> {
        let violated =
            |promise, seen: String| Checked { violations: vec![Broken::new(promise, seen)], ..Checked::default() };
        let device = Device::attach(file)?;
        let mounted = match device.mount(self.options.fs, &self.path("mounted")) {
            Ok(mounted) => mounted,
            // Some file systems rest on blocks that are written whole: what they make of torn ones is not the store's doing.
            Err(_) if torn => return Ok(Checked { refused: true, ..Checked::default() }),
            Err(trouble) => return Ok(violated(Promise::Mounts, trouble.to_string())),
        };
        let (history, position) = (self.path("history"), wanted.position as u64);
        // What recovers is whole, except where the defect is one of recovery.
        let defect = work.shape.defect.filter(|defect| *defect == Defect::KeepDeadTail);
        let job = self.job(Shape { defect, ..work.shape }, Task::Check { history, position, again });
        let outcome = self.send::<Result<Checked, String>>(&job)?;
        drop(mounted);
        match outcome {
            Outcome::Answered(Ok(checked)) => Ok(checked),
            Outcome::Answered(Err(why)) => Err(Trouble::Workload(why)),
            Outcome::Died(why) => Ok(violated(Promise::Lives, why)),
        }
    }

    /// Tells of a violation, and keeps what shows it where that is wanted.
    fn violated(&mut self, work: &Work, wanted: Wanted, image: &Image, checked: &Checked) -> Result<(), Trouble> {
        let Wanted { number, position, mode } = wanted;
        let (seed, shape, what) = (work.shape.seed, work.shape, sentences(&checked.violations));
        let text = format!("seed {seed}, cut {number} before event {position}, {mode:?}, {shape:?}:\n  {what}");
        eprintln!("violation: {text}");
        if let Some(keep) = &self.options.keep {
            let name = format!("{}-{seed}-{number}", self.options.fs.name());
            keep_image(&keep.join(name.clone() + ".img"), image).map_err(system("keeping the disk"))?;
            save(&keep.join(name.clone() + ".history"), &work.worked.steps).map_err(system("keeping the history"))?;
            std::fs::write(keep.join(name + ".txt"), &text).map_err(system("keeping what was found"))?;
        }
        self.report.violations.push(text);
        self.report.broken.extend(checked.violations.iter().map(|broken| broken.promise));
        Ok(())
    }
}

/// The shape of a workload: what is not named on the command line comes in turn.
fn shape(options: &Options, number: u64) -> Shape {
    const TURNS: [(Io, Sync); 7] = [
        (Io::Direct, Sync::Auto),
        (Io::Direct, Sync::Barrier),
        (Io::Direct, Sync::Dsync),
        (Io::Direct, Sync::File),
        (Io::Buffered, Sync::Auto),
        (Io::Buffered, Sync::Dsync),
        (Io::Buffered, Sync::File),
    ];
    let fits = |(io, sync): &&(Io, Sync)| {
        options.io.is_none_or(|wanted| wanted == *io) && options.sync.is_none_or(|wanted| wanted == *sync)
    };
    let turns: Vec<&(Io, Sync)> = TURNS.iter().filter(fits).collect();
    let wanted = (options.io.unwrap_or(Io::Direct), options.sync.unwrap_or(Sync::Auto));
    let (io, sync) = turns.get(number as usize % turns.len().max(1)).map_or(wanted, |turn| **turn);
    Shape { io, sync, defect: options.sabotage, seed: options.seed.unwrap_or(1) + number }
}

/// Where a workload is cut, in order: anywhere; right behind an answer, where what was just acknowledged is youngest; right before a flush, where
/// most is lost; or where something else than an append is in flight, each in turn.
fn wanted(work: &Work, mode: Option<Mode>, cuts: u64) -> Vec<Wanted> {
    let mut random = Random::new(work.shape.seed, 500);
    let length = work.recorded.events.len();
    let answers: Vec<u64> = work.worked.steps.iter().filter_map(|step| step.answered).collect();
    let of = |verb| {
        let spans = work.worked.spans.iter().filter(move |span| span.verb == verb && span.can_be_cut());
        spans.copied().collect::<Vec<_>>()
    };
    let flying: Vec<Vec<Span>> = VERBS.into_iter().map(of).filter(|spans| !spans.is_empty()).collect();
    let is_flush = |at: &usize| matches!(work.recorded.events.get(*at), Some(Event::Flush));
    let mut wanted: Vec<Wanted> = (0..cuts)
        .map(|number| {
            let anywhere = random.below(length as u64 + 1) as usize;
            let position = match random.below(4) {
                _ if number % 3 == 2 && !flying.is_empty() => {
                    // Workloads are short: the next one goes on with the next verb.
                    let turn = (work.shape.seed.wrapping_mul(cuts) + number) / 3;
                    let Span { begun, answered, .. } = random.pick(&flying[turn as usize % flying.len()]);
                    (begun + 1 + random.below(answered - begun - 1)) as usize
                }
                0 => anywhere,
                1 if !answers.is_empty() => random.pick(&answers) as usize,
                _ => (anywhere..length).find(is_flush).unwrap_or(length),
            };
            let mode = mode.unwrap_or(MODES[number as usize % MODES.len()]);
            Wanted { number, position: position.min(length), mode }
        })
        .collect();
    wanted.sort_by_key(|wanted| wanted.position);
    wanted
}

fn keep_image(path: &Path, image: &Image) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let file = std::fs::File::create(path)?;
    file.set_len(image.len())?;
    for (offset, page) in image.pages() {
        file.write_all_at(page, offset)?;
    }
    Ok(())
}
