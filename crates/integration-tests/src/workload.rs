//! Writes that the writing process and the checking process can both derive.
//!
//! The operation id, stream and payload of a write follow from three numbers, so a parent knows
//! which writes its killed child had in flight and can send the same write again.

use cleveragents_domain::id::{OperationId, PlanId};
use cleveragents_domain::{Event, EventKind, NewEvent, StreamId};
use cleveragents_ports::{Result, StoreError, StoreHandle, StoreOperation, StreamHead};
use serde_json::{Value, json};

/// Padding in bytes that brings a payload to about 200 bytes.
const FILLER: usize = 150;

/// One write: the `number`th of a thread of the process with this `seed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HammerWrite {
    pub seed: u32,
    pub thread: u32,
    pub number: u32,
}

impl HammerWrite {
    /// Digits are legal in ids, so the id is built from the three numbers.
    pub fn operation(self) -> Result<StoreOperation> {
        Ok(StoreOperation {
            id: Some(self.id()?),
            label: "hammer.append",
        })
    }

    /// Every second write goes to the shared stream, the others to the thread's own.
    pub fn stream(self) -> Result<StreamId> {
        if self.number.is_multiple_of(2) {
            shared_stream()
        } else {
            thread_stream(self.seed, self.thread)
        }
    }

    pub fn payload(self) -> Value {
        let Self {
            seed,
            thread,
            number,
        } = self;
        let digit = char::from_digit(number % 10, 10).unwrap_or('0');
        let filler = digit.to_string().repeat(FILLER);
        json!({"seed": seed, "thread": thread, "number": number, "filler": filler})
    }

    /// Returns the write that an event belongs to, if its payload is intact.
    pub fn from_event(event: &Event) -> Option<Self> {
        let text = event.payload.as_ref()?.get();
        let value: Value = serde_json::from_str(text).ok()?;
        let field = |name: &str| u32::try_from(value.get(name)?.as_u64()?).ok();
        let write = Self {
            seed: field("seed")?,
            thread: field("thread")?,
            number: field("number")?,
        };
        (write.payload() == value).then_some(write)
    }

    /// Appends the event; completes when it is durable.
    pub async fn append(self, store: &StoreHandle) -> Result<StreamHead> {
        let stream = self.stream()?;
        let payload = self.payload();
        store
            .write(self.operation()?, move |tx| {
                let event = NewEvent::new(EventKind::ToolCompleted, "hammer", &payload)
                    .map_err(StoreError::internal)?;
                tx.append(stream, &[event])
            })
            .await
    }

    /// The operation id, the same for every resend.
    pub fn id(self) -> Result<OperationId> {
        let text = format!("0{:09}{:04}{:012}", self.seed, self.thread, self.number);
        text.parse().map_err(StoreError::internal)
    }
}

/// The stream that all threads of all processes append to.
pub fn shared_stream() -> Result<StreamId> {
    plan_stream(&format!("2{:025}", 0))
}

/// The stream that only one thread appends to.
pub fn thread_stream(seed: u32, thread: u32) -> Result<StreamId> {
    plan_stream(&format!("1{seed:09}{thread:04}{:012}", 0))
}

fn plan_stream(text: &str) -> Result<StreamId> {
    let plan: PlanId = text.parse().map_err(StoreError::internal)?;
    Ok(StreamId::Plan(plan))
}
