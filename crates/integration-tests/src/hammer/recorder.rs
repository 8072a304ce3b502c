//! A worker process that received the lease of a plan's owner and records changes.

use cleveragents_ports::{Result, StoreError};

use super::{HammerArguments, print_line, read_line, runtime};
use crate::execution_samples::context;
use crate::recorders::{Recorder, RecorderContext};

/// Reads its job from the parent, then records with `--threads` threads, `--count` changes each.
pub(super) fn record(arguments: &HammerArguments) -> Result<()> {
    let (threads, count): (u32, u32) = (arguments.value("threads")?, arguments.value("count")?);
    let worker = arguments.value("seed")?;
    let opened = arguments.open()?;
    print_line("ready");
    let Some(line) = read_line() else {
        return Ok(());
    };
    let place: RecorderContext = serde_json::from_str(&line).map_err(StoreError::internal)?;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (store, place) = (&opened.store, &place);
            let recorder = Recorder {
                worker,
                thread,
                count,
            };
            scope.spawn(move || {
                let context = context(store, place.lease.clone());
                let work = recorder.run(&context, place, |message| {
                    print_line(&format!("told {message}"))
                });
                if let Err(error) = runtime().and_then(|runtime| runtime.block_on(work)) {
                    print_line(&format!("error {error}"));
                }
            });
        }
    });
    Ok(())
}
