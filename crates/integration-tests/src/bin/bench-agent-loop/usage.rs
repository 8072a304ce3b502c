//! The resources this process has used so far.

use std::path::Path;

use rustix::time::{ClockId, clock_gettime};

/// CPU milliseconds of all threads of this process, without its children.
pub(crate) fn own_cpu_ms() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// CPU milliseconds of all terminated children, which are git's, in the hundredths of a second that
/// Linux reports.
pub(crate) fn children_cpu_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("readable");
    let fields = text.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
    // Fields 16 and 17 of the line, counted after the name.
    (ticks(13) + ticks(14)) * 10.0
}

/// The peak memory of this process, in MiB.
pub(crate) fn peak_mib() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("readable");
    let line = text.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.expect("a peak").parse::<f64>().expect("a number") / 1024.0
}

/// The bytes of all files below `folder`, if it exists.
pub(crate) fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    entries
        .map(|entry| {
            let entry = entry.expect("readable");
            let about = entry.metadata().expect("readable");
            if about.is_dir() {
                bytes_below(&entry.path())
            } else {
                about.len()
            }
        })
        .sum()
}
