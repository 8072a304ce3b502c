//! `agents plan log`

use clap::Args;
use cleveragents_api::plan::PlanLog;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Event, StreamId};
use cleveragents_ports::StoreError;
use cleveragents_ports::StreamHead;
use serde_json::json;

use super::events::{self, HEADERS};
use crate::argument_types::PlanArgument;
use crate::arguments::Format;
use crate::bootstrap::AppContext;
use crate::commands::{CommandContext, OutputMode};
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, ReaderState, format_count};

/// How many events are read at once.
const PAGE: u32 = 1000;

/// Show a plan's journal: all its events, in order
///
/// With --events, each event is a line of JSON, numbered without gaps by `plan_seq`, and the last
/// line is the envelope. --from-seq continues where another reader stopped.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan log 4k2m9x0q
  agents plan log 4k2m9x0q --follow
  agents plan log 4k2m9x0q --events --from-seq 12
  agents plan log 4k2m9x0q --limit 5 --format json")]
pub struct PlanLogArgs {
    /// The plan; of a deleted plan its whole id
    #[arg(value_name = "PLAN")]
    plan: PlanArgument,

    /// Start at this event (its plan_seq)
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..))]
    from_seq: i64,

    /// At most this many events
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "follow")]
    limit: Option<u64>,

    /// Write each event as a line of JSON, and the envelope as the last line
    #[arg(long)]
    events: bool,

    /// Continue until the plan is finished
    #[arg(long)]
    follow: bool,
}

impl PlanLogArgs {
    /// Following streams events as they happen, so the envelope comes last.
    pub fn output_mode(&self, format: Format) -> OutputMode {
        if self.events || (self.follow && format.is_envelope()) {
            OutputMode::Events
        } else {
            OutputMode::Answer
        }
    }

    pub fn run(&self, context: &CommandContext<'_>) -> Result<CommandAnswer, CommandFailure> {
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_to_read()?;
        let output = self.output_mode(context.format);
        if output == OutputMode::Answer && !self.follow {
            let reply = app.call(PlanLog {
                plan: self.plan.clone(),
                from_seq: Some(self.from_seq),
                limit: self.limit,
            })?;
            return CommandAnswer::from_reply(reply, |page| {
                let rows = page.events.iter().map(events::cells);
                OutputView::new().table("Journal", &HEADERS, rows)
            });
        }
        let found = app.app();
        let found = found.find_journal_from(&self.plan, self.from_seq);
        let (id, head) = app.block_on(found)?;
        let show = |event: &Event| match output {
            OutputMode::Events => context.lines.json(&events::data(event)),
            OutputMode::Answer => context.lines.cells(&events::cells(&event.into())),
        };
        if self.follow {
            let last = events::follow(&app, &context.lines, (id, self.from_seq - 1), show)?;
            return Ok(self.summary(id, last, &self.head(&app, id)?));
        }
        let last = self.for_each_event(&app, id, show)?;
        Ok(self.summary(id, last, &head))
    }

    fn head(&self, app: &AppContext<'_>, id: PlanId) -> Result<StreamHead, StoreError> {
        app.block_on(app.store().read(move |tx| tx.head(StreamId::Plan(id))))
    }

    fn page(&self, app: &AppContext<'_>, id: PlanId, after: i64) -> Result<Vec<Event>, StoreError> {
        let stream = StreamId::Plan(id);
        app.block_on(app.store().read(move |tx| tx.events(stream, after, PAGE)))
    }

    /// Calls `show` for each requested event; returns the last sequence number.
    fn for_each_event(
        &self,
        app: &AppContext<'_>,
        id: PlanId,
        mut show: impl FnMut(&Event) -> Result<ReaderState, CommandFailure>,
    ) -> Result<i64, CommandFailure> {
        let mut last = self.from_seq - 1;
        let mut left = self.limit.unwrap_or(u64::MAX);
        loop {
            let page = self.page(app, id, last)?;
            if page.is_empty() {
                return Ok(last);
            }
            for event in page {
                if left == 0 || show(&event)? == ReaderState::Closed {
                    return Ok(last);
                }
                left -= 1;
                last = event.stream_seq;
            }
        }
    }

    /// Returns the answer after the events were written one by one.
    fn summary(&self, id: PlanId, last: i64, head: &StreamHead) -> CommandAnswer {
        let written = last - self.from_seq + 1;
        let data = json!({
            "plan_id": id,
            "from_seq": self.from_seq,
            "last_seq": last,
            "events": written,
            "head": {"plan_seq": head.stream_seq, "hash": head.hash},
        });
        CommandAnswer::new(data, OutputView::new()).with_message(
            MessageLevel::Info,
            format!("{} written", format_count(written, "event")),
        )
    }
}
