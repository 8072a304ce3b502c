//! `agents plan log`

use clap::Args;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Event, StreamId};
use cleveragents_engine::StoreError;
use cleveragents_engine::ports::Head;
use serde_json::{Value, json};

use super::events::{self, HEADERS};
use super::shown::find_journal;
use crate::arguments::Format;
use crate::commands::{Context, Output};
use crate::failure::Failure;
use crate::output::{Answer, Level, Reader, View, counted};
use crate::typed::PlanArgument;
use crate::wiring::Wired;

/// How many events are read at once.
const PAGE: u32 = 1000;

/// Show a plan's journal: everything that happened to it, in order
///
/// With --events each event is a line of JSON, numbered without gaps by `plan_seq`, and the last
/// line is the envelope; --from-seq goes on where another reader stopped, and nothing is missing.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan log 4k2m9x0q
  agents plan log 4k2m9x0q --follow
  agents plan log 4k2m9x0q --events --from-seq 12
  agents plan log 4k2m9x0q --limit 5 --format json")]
pub struct Log {
    /// The plan; of a deleted plan its whole id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// Begin at this event (its plan_seq)
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..))]
    from_seq: i64,

    /// At most this many events
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "follow")]
    limit: Option<u64>,

    /// Write each event as a line of JSON, and the envelope as the last line
    #[arg(long)]
    events: bool,

    /// Go on until the plan is finished
    #[arg(long)]
    follow: bool,
}

impl Log {
    /// Who follows wants each event when it happens, so an envelope comes last.
    pub fn output(&self, format: Format) -> Output {
        match self.events || (self.follow && format.is_envelope()) {
            true => Output::Events,
            false => Output::Answer,
        }
    }

    pub fn run(&self, context: &Context<'_>) -> Result<Answer, Failure> {
        let wiring = context.wiring()?;
        let wired = wiring.open_to_read()?;
        let id = find_journal(&wired, &self.plan)?;
        let head = self.head(&wired, id)?;
        if self.from_seq > head.stream_seq + 1 {
            return Err(Failure::usage(format!(
                "--from-seq {} lies beyond the end of the journal, which has {}",
                self.from_seq,
                counted(head.stream_seq, "event")
            )));
        }
        let output = self.output(context.format);
        let show = |event: &Event| match output {
            Output::Events => context.lines.json(&events::data(event)),
            Output::Answer => context.lines.cells(&events::cells(event)),
        };
        if self.follow {
            let last = events::follow(&wired, &context.lines, (id, self.from_seq - 1), show)?;
            return Ok(self.summary(id, last, &self.head(&wired, id)?));
        }
        if output == Output::Events {
            let last = self.each(&wired, id, show)?;
            return Ok(self.summary(id, last, &head));
        }
        let found = self.read(&wired, id)?;
        Ok(self.whole(id, &found, &head))
    }

    fn head(&self, wired: &Wired<'_>, id: PlanId) -> Result<Head, StoreError> {
        wired.wait(
            wired
                .store()
                .read(move |unit| unit.head(StreamId::Plan(id))),
        )
    }

    fn page(&self, wired: &Wired<'_>, id: PlanId, after: i64) -> Result<Vec<Event>, StoreError> {
        let stream = StreamId::Plan(id);
        wired.wait(
            wired
                .store()
                .read(move |unit| unit.events(stream, after, PAGE)),
        )
    }

    fn read(&self, wired: &Wired<'_>, id: PlanId) -> Result<Vec<Event>, Failure> {
        let mut found = Vec::new();
        self.each(wired, id, |event| {
            found.push(event.clone());
            Ok(Reader::There)
        })?;
        Ok(found)
    }

    /// Gives each event that was asked for to `show`; answers with the last place.
    fn each(
        &self,
        wired: &Wired<'_>,
        id: PlanId,
        mut show: impl FnMut(&Event) -> Result<Reader, Failure>,
    ) -> Result<i64, Failure> {
        let mut last = self.from_seq - 1;
        let mut left = self.limit.unwrap_or(u64::MAX);
        loop {
            let page = self.page(wired, id, last)?;
            if page.is_empty() {
                return Ok(last);
            }
            for event in page {
                if left == 0 || show(&event)? == Reader::Gone {
                    return Ok(last);
                }
                left -= 1;
                last = event.stream_seq;
            }
        }
    }

    fn whole(&self, id: PlanId, found: &[Event], head: &Head) -> Answer {
        let shown: Vec<Value> = found.iter().map(events::data).collect();
        let data = json!({
            "plan_id": id,
            "events": shown,
            "head": {"plan_seq": head.stream_seq, "hash": head.hash},
        });
        let rows = found.iter().map(events::cells);
        let view = View::new().table("Journal", &HEADERS, rows);
        let number = i64::try_from(found.len()).unwrap_or(i64::MAX);
        Answer::new(data, view).say(Level::Info, format!("{} shown", counted(number, "event")))
    }

    /// What is left to say after the events were written one by one.
    fn summary(&self, id: PlanId, last: i64, head: &Head) -> Answer {
        let written = last - self.from_seq + 1;
        let data = json!({
            "plan_id": id,
            "from_seq": self.from_seq,
            "last_seq": last,
            "events": written,
            "head": {"plan_seq": head.stream_seq, "hash": head.hash},
        });
        Answer::new(data, View::new()).say(
            Level::Info,
            format!("{} written", counted(written, "event")),
        )
    }
}
