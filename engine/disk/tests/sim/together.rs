//! Syncs that are shared: each who waits is answered by one that started after he asked.

use futures_util::future::join_all;
use rustix::io::Errno;
use strandline_disk::sim::{Fault, Loss, SimWorld, Times, What, When, drive};
use strandline_disk::together::Together;
use strandline_disk::{Access, Disk, Name, OpenFile, Verb, transfer};

fn name(number: usize) -> Name {
    Name::new(&format!("f{number}")).expect("a plain name")
}

/// Makes files, and syncs the root for each of them by itself.
fn make(world: &SimWorld, count: usize) -> Vec<Result<(), Errno>> {
    let disk = world.open();
    let together = Together::default();
    let work = Box::pin(async {
        let made = (0..count).map(|number| {
            let (disk, together) = (disk.clone(), together.clone());
            async move {
                transfer::open(&disk, &disk.root(), &name(number), OpenFile::New, Access::Auto).await.expect("a file");
                together.sync(&disk, &disk.root()).await.map_err(|error| error.errno)
            }
        });
        join_all(made).await
    });
    drive(&disk, work)
}

fn syncs(world: &SimWorld) -> usize {
    world.trace().iter().filter(|line| line.contains("start") && line.contains("SyncDirectory")).count()
}

#[test]
fn many_who_wait_share_syncs_and_each_is_covered() {
    for seed in 0..50 {
        let world = SimWorld::new(seed);
        world.keep_trace(true);
        assert!(make(&world, 40).iter().all(Result::is_ok), "seed {seed}");
        let shared = syncs(&world);
        assert!(shared < 40, "seed {seed}: {shared} syncs for 40");
        world.power_failure(Loss::DropAll);
        let disk = world.open();
        assert_eq!(disk.list(&disk.root()).expect("the root").len(), 40, "seed {seed}");
    }
}

#[test]
fn a_failed_sync_is_answered_to_all_who_waited_for_it() {
    for seed in 0..50 {
        let world = SimWorld::new(seed);
        let what = What::Errno(Errno::IO);
        world.inject(Fault { when: When::Verb(Verb::SyncDirectory), what: what.clone(), times: Times::Forever });
        assert_eq!(make(&world, 8), vec![Err(Errno::IO); 8], "seed {seed}");
        let world = SimWorld::new(seed);
        world.inject(Fault { when: When::KthOf(Verb::SyncDirectory, 1), what, times: Times::Once });
        let answers = make(&world, 8);
        assert!(answers.contains(&Err(Errno::IO)), "seed {seed}: {answers:?}");
    }
}

#[test]
fn whoever_is_dropped_while_it_syncs_for_all_leaves_nobody_waiting() {
    let world = SimWorld::new(1);
    let disk = world.open();
    let together = Together::default();
    let root = disk.root();
    let mut first = Box::pin(together.sync(&disk, &root));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(first.as_mut().poll(&mut context).is_pending());
    let mut second = Box::pin({
        let (disk, together) = (disk.clone(), together.clone());
        async move { together.sync(&disk, &disk.root()).await }
    });
    assert!(second.as_mut().poll(&mut context).is_pending());
    drop(first);
    assert_eq!(drive(&disk, second), Ok(()));
}
