//! How fast crash images are made. Run with `--release --ignored --nocapture`.

use crate::support::*;
use std::time::Instant;
use strandline_disk::sim::{Loss, SimWorld};
use strandline_disk::{Access, Disk, OpenFile};

#[test]
#[ignore = "a measurement, not a check"]
fn crash_images_a_second() {
    for (files, segment, unsynced) in [(4, 64 << 10, 16 << 10), (4, 1 << 20, 64 << 10), (4, 1 << 20, 1 << 20)] {
        let world = SimWorld::new(1);
        let disk = world.open();
        for file in 0..files {
            let handle = open(&disk, &disk.root(), &format!("f{file}"), OpenFile::New, Access::Auto);
            write(&disk, &handle, b'o', 0, segment, false);
            sync(&disk, &handle);
            write(&disk, &handle, b'n', 0, unsynced, false);
        }
        sync_directory(&disk, &disk.root());
        let (started, images) = (Instant::now(), 2_000);
        for seed in 0..images {
            let image = world.crash_image(seed, Loss::Random);
            let next = image.open();
            let handle = open(&next, &next.root(), "f0", OpenFile::Existing, Access::Auto);
            assert_eq!(read(&next, &handle, 0, segment).len(), segment);
        }
        let rate = f64::from(images as u32) / started.elapsed().as_secs_f64();
        println!("{files} files of {} KiB, {} KiB of each unsynced: {rate:.0} images/s", segment >> 10, unsynced >> 10);
    }
}
