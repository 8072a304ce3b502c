//! A worker process of a plan's owner: it was handed the owner's lease and records changes.

use cleveragents_engine::ports::{Result, StoreError};

use super::{Arguments, hear, runtime, say};
use crate::execution_samples::context;
use crate::recorders::{Recorder, Workplace};

/// Hears where to work, then records with `--threads` threads, `--count` changes each.
pub(super) fn record(arguments: &Arguments) -> Result<()> {
    let (threads, count): (u32, u32) = (arguments.parsed("threads")?, arguments.parsed("count")?);
    let worker = arguments.parsed("seed")?;
    let opened = arguments.open()?;
    say("ready");
    let Some(line) = hear() else {
        return Ok(());
    };
    let place: Workplace = serde_json::from_str(&line).map_err(StoreError::internal)?;
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
                let work = recorder.work(&context, place, |told| say(&format!("told {told}")));
                if let Err(error) = runtime().and_then(|runtime| runtime.block_on(work)) {
                    say(&format!("error {error}"));
                }
            });
        }
    });
    Ok(())
}
