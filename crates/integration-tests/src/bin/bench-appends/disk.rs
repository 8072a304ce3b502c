//! The cost of a sync on this disk, without any database.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

const PAGE: [u8; 4096] = [7; 4096];
const SYNCS: u64 = 500;

/// Medians in microseconds.
#[derive(Debug)]
pub(crate) struct SyncTimes {
    /// Of an existing page.
    pub(crate) overwrite: f64,
    /// The same with `fsync`, which also writes the file's timestamps.
    pub(crate) overwrite_fsync: f64,
    /// Of a page that extends the file.
    pub(crate) growing: f64,
}

pub(crate) fn measure() -> SyncTimes {
    let folder = tempfile::tempdir().expect("a folder");
    let file = File::create(folder.path().join("file")).expect("a file");
    // The first pass creates the file, the others overwrite it.
    let growing = median(&file, File::sync_data);
    SyncTimes {
        overwrite: median(&file, File::sync_data),
        overwrite_fsync: median(&file, File::sync_all),
        growing,
    }
}

fn median(file: &File, sync: fn(&File) -> std::io::Result<()>) -> f64 {
    let mut spans: Vec<f64> = (0..SYNCS)
        .map(|number| {
            let started = Instant::now();
            file.write_all_at(&PAGE, number * 4096).expect("a write");
            sync(file).expect("a sync");
            started.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    spans.sort_by(f64::total_cmp);
    spans[spans.len() / 2]
}
