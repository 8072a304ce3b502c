//! Models that take a sample at every request.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use cleveragents_domain::model::{ModelChoice, ModelRequest};
use cleveragents_ports::models::{Model, ModelError, ModelFacts, ModelStream, Models};
use cleveragents_store::Database;
use futures_util::StreamExt as _;
use futures_util::stream::once;

use crate::usage::{bytes_below, own_cpu_ms, peak_mib};

/// The resource usage at the time of a request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct UsageSample {
    /// Before and after taking the sample, which must not be counted.
    pub(crate) cpu_before_ms: f64,
    pub(crate) cpu_after_ms: f64,
    pub(crate) peak_mib: f64,
    /// Set only for the turns in which storage is measured.
    pub(crate) stored: Option<StoredBytes>,
}

/// The bytes stored so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredBytes {
    pub(crate) database: u64,
    pub(crate) blobs: u64,
}

/// Takes and keeps the samples.
#[derive(Debug, Clone)]
pub(crate) struct UsageObserver {
    pub(crate) database: Arc<Database>,
    /// The blob folder.
    pub(crate) blobs: PathBuf,
    /// The turns before which storage is measured.
    pub(crate) turns: Vec<u64>,
    pub(crate) samples: Arc<Mutex<Vec<UsageSample>>>,
}

impl UsageObserver {
    async fn take_sample(self, ordinal: u64) {
        let mut sample = UsageSample {
            cpu_before_ms: own_cpu_ms(),
            peak_mib: peak_mib(),
            ..UsageSample::default()
        };
        if self.turns.contains(&ordinal) {
            let found = self.database.statistics().await.expect("an answer");
            sample.stored = Some(StoredBytes {
                database: u64::try_from(found.database_bytes).expect("a size"),
                blobs: bytes_below(&self.blobs),
            });
        }
        sample.cpu_after_ms = own_cpu_ms();
        let samples = self.samples.lock();
        samples.unwrap_or_else(PoisonError::into_inner).push(sample);
    }
}

#[derive(Debug)]
pub(crate) struct ObservedModels {
    pub(crate) models: Arc<dyn Models>,
    pub(crate) observer: UsageObserver,
}

impl Models for ObservedModels {
    fn open(&self, choice: &ModelChoice) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::new(ObservedModel {
            model: self.models.open(choice)?,
            observer: self.observer.clone(),
        }))
    }

    fn preferred(&self) -> Option<ModelChoice> {
        self.models.preferred()
    }

    fn configured(&self) -> Vec<ModelChoice> {
        self.models.configured()
    }
}

#[derive(Debug)]
struct ObservedModel {
    model: Arc<dyn Model>,
    observer: UsageObserver,
}

impl Model for ObservedModel {
    fn facts(&self) -> &ModelFacts {
        self.model.facts()
    }

    fn count_tokens(&self, request: &ModelRequest) -> u64 {
        self.model.count_tokens(request)
    }

    fn stream(&self, request: &ModelRequest, ordinal: u64) -> ModelStream {
        let answer = self.model.stream(request, ordinal);
        let observer = self.observer.clone();
        let looked = async move {
            observer.take_sample(ordinal).await;
            answer
        };
        Box::pin(once(looked).flatten())
    }
}
