//! The peak memory of a program that ends too soon to be observed.
//!
//! Its output goes to a full pipe, so it blocks at its first write with all its work done; then the
//! kernel's high-water mark can be read. The resource usage of a finished child would include the
//! parent's memory, because a child starts as a copy of its parent.

use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process;

/// Time that a value must stay unchanged to count as final.
const STABLE_DURATION: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_secs(10);

/// The peak resident memory of the program before its first output, in KiB.
pub fn memory_kib(program: &Path, arguments: &[&str]) -> Result<u64> {
    let (reader, writer) = std::io::pipe()?;
    let plug = PipeBlocker::start(writer.try_clone()?);
    wait_until_stable(|| Some(plug.written.load(Ordering::Relaxed)))
        .context("cannot fill a pipe")?;

    let mut command = process::command(program);
    command.args(arguments).stdin(Stdio::null());
    let mut child = command.stdout(writer).stderr(Stdio::null()).spawn()?;
    let status = format!("/proc/{}/status", child.id());
    let peak = wait_until_stable(|| high_water_mark(&std::fs::read_to_string(&status).ok()?));

    command.stdout(Stdio::null());
    plug.release(reader)?;
    if !child.wait()?.success() {
        bail!("`{}` failed", process::command_line(&command));
    }
    peak.context("the program ended before its memory could be read: did it print nothing?")
}

/// Returns the value once it has stopped changing; `None` if it never does.
fn wait_until_stable<T: PartialEq>(mut value: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + LIMIT;
    let mut last = value();
    let mut since = Instant::now();
    while Instant::now() < deadline {
        thread::sleep(Duration::from_millis(5));
        let now = value();
        if now != last {
            last = now;
            since = Instant::now();
        } else if since.elapsed() >= STABLE_DURATION {
            return last;
        }
    }
    None
}

fn high_water_mark(status: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// A thread that keeps a pipe full until stopped.
struct PipeBlocker {
    written: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl PipeBlocker {
    fn start(mut writer: PipeWriter) -> PipeBlocker {
        let written = Arc::new(AtomicUsize::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let (count, ended) = (Arc::clone(&written), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) && writer.write_all(&[0; 512]).is_ok() {
                count.fetch_add(512, Ordering::Relaxed);
            }
        });
        PipeBlocker {
            written,
            stop,
            thread,
        }
    }

    /// Lets everything through until the last writer is gone.
    fn release(self, mut reader: PipeReader) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        reader.read_to_end(&mut Vec::new())?;
        match self.thread.join() {
            Ok(()) => Ok(()),
            Err(_) => bail!("the thread that fills the pipe panicked"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_known_size_is_measured() {
        let small = memory_kib(Path::new("echo"), &["hello"]).unwrap();
        assert!((100..20_000).contains(&small), "{small} KiB");
        let script = "x=$(head -c 30000000 /dev/zero | tr '\\0' a); echo ${#x}";
        let large = memory_kib(Path::new("sh"), &["-c", script]).unwrap();
        assert!(large > 29_000, "{large} KiB");
    }
}
