//! Writes that the writing process and the checking process can both derive.
//!
//! The operation id, stream and payload of a write follow from three numbers, so a parent knows
//! which writes its killed child had in flight and can send the same write again.

use cleveragents_domain::event::payloads::ActorErrored;
use cleveragents_domain::id::{OperationId, PlanId};
use cleveragents_domain::{Event, NamespacedName, NewEvent, PayloadOutcome, StreamId};
use cleveragents_ports::{Result, StoreError, StoreHandle, StoreOperation, StreamHead};

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

    /// The three numbers and the padding are the text of the reason.
    pub fn payload(self) -> ActorErrored {
        let Self {
            seed,
            thread,
            number,
        } = self;
        let digit = char::from_digit(number % 10, 10).unwrap_or('0');
        let filler = digit.to_string().repeat(FILLER);
        ActorErrored {
            actor: NamespacedName::built_in("hammer"),
            step: number,
            reason: format!("{seed} {thread} {number} {filler}"),
        }
    }

    /// Returns the write that an event belongs to, if its payload is intact.
    pub fn from_event(event: &Event) -> Option<Self> {
        let PayloadOutcome::Current(payload) = event.read::<ActorErrored>().ok()? else {
            return None;
        };
        let mut numbers = payload.reason.split(' ').map(str::parse);
        let mut next = || numbers.next()?.ok();
        let write = Self {
            seed: next()?,
            thread: next()?,
            number: next()?,
        };
        (write.payload() == payload).then_some(write)
    }

    /// Appends the event; completes when it is durable.
    pub async fn append(self, store: &StoreHandle) -> Result<StreamHead> {
        let stream = self.stream()?;
        let payload = self.payload();
        store
            .write(self.operation()?, move |tx| {
                let event = NewEvent::of("hammer", &payload).map_err(StoreError::internal)?;
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
