//! `agents plan log`

use clap::Args;
use cleveragents_api::RequestKind;
use cleveragents_api::plan::log::{JournalEvent, JournalHead, JournalPage};
use cleveragents_api::plan::{PlanLog, PlanReference};
use cleveragents_domain::id::PlanId;
use serde::Serialize;

use super::events::{self, EventDetail};
use crate::argument_types::PlanArgument;
use crate::arguments::Format;
use crate::bootstrap::AppContext;
use crate::commands::{CommandContext, OutputMode};
use crate::failure::CommandFailure;
use crate::output::{CommandAnswer, MessageLevel, OutputView, ReaderState, format_count};
use crate::plan_lookup::plan_reference;
use crate::unfinished_applies::log_unfinished_applies;

/// Number of events that one read returns.
const PAGE: u64 = 1000;

/// Show a plan's journal: all its events, in order
///
/// With --events, each event is a line of JSON, numbered without gaps by `plan_seq`, and the last
/// line is the envelope. --from-seq continues where another reader stopped. Times are local; -v adds
/// exact times, who wrote an event, and its hash.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  agents plan log 4k2m9x0q
  agents plan log 4k2m9x0q --follow
  agents plan log 4k2m9x0q --events --from-seq 12
  agents plan log 4k2m9x0q --limit 5 --format json")]
pub struct PlanLogArgs {
    /// The plan, such as @last; of a deleted plan its whole id
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

/// The answer after the events were written one by one.
#[derive(Debug, Serialize)]
struct LogSummary<'a> {
    plan_id: PlanId,
    from_seq: i64,
    last_seq: i64,
    /// The number of events written.
    events: i64,
    head: &'a JournalHead,
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
        let output = self.output_mode(context.format);
        let detail = EventDetail::from_verbosity(context.arguments.verbose);
        if output == OutputMode::Answer && !self.follow {
            let reply = context.call_for_plan(&self.plan, |plan| PlanLog {
                plan,
                from_seq: Some(self.from_seq),
                limit: self.limit,
            })?;
            return CommandAnswer::from_reply(reply, |page| {
                let rows = page.events.iter().map(|event| detail.cells(event));
                OutputView::new().table("Journal", detail.headers(), rows)
            });
        }
        let bootstrap = context.bootstrap()?;
        let app = bootstrap.open_for_requests(RequestKind::Read)?;
        // The messages of the replies are not displayed.
        log_unfinished_applies(&app)?;
        let show = |event: &JournalEvent| match output {
            OutputMode::Events => context.lines.json(event),
            OutputMode::Answer => context.lines.cells(&detail.cells(event)),
        };
        let plan = plan_reference(&app, &self.plan)?;
        let page = |from_seq, limit| read_page(&app, &plan, from_seq, limit);
        if self.follow {
            let id = page(self.from_seq, 1)?.plan_id;
            let last = events::follow(&app, &context.lines, id, self.from_seq - 1, show)?;
            return self.summary(last, &page(last + 1, 1)?);
        }
        let (last, page) = self.for_each_event(page, show)?;
        self.summary(last, &page)
    }

    /// Calls `show` for each requested event, which `read` returns from a number on; returns the last
    /// sequence number and the page that was read last.
    fn for_each_event(
        &self,
        read: impl Fn(i64, u64) -> Result<JournalPage, CommandFailure>,
        mut show: impl FnMut(&JournalEvent) -> Result<ReaderState, CommandFailure>,
    ) -> Result<(i64, JournalPage), CommandFailure> {
        let mut last = self.from_seq - 1;
        let mut left = self.limit.unwrap_or(u64::MAX);
        let mut page = read(self.from_seq, PAGE.min(left))?;
        loop {
            for event in &page.events {
                if show(event)? == ReaderState::Closed {
                    return Ok((last, page));
                }
                left -= 1;
                last = event.plan_seq;
            }
            if page.events.is_empty() || left == 0 {
                return Ok((last, page));
            }
            page = read(last + 1, PAGE.min(left))?;
        }
    }

    /// Returns the answer after the events were written one by one.
    fn summary(&self, last: i64, page: &JournalPage) -> Result<CommandAnswer, CommandFailure> {
        let written = last - self.from_seq + 1;
        let data = LogSummary {
            plan_id: page.plan_id,
            from_seq: self.from_seq,
            last_seq: last,
            events: written,
            head: &page.head,
        };
        let text = format!("{} written", format_count(written, "event"));
        let answer = CommandAnswer::new(&data, OutputView::new())?;
        Ok(answer.with_message(MessageLevel::Info, text))
    }
}

/// Returns at most `limit` events of the journal.
fn read_page(
    app: &AppContext<'_>,
    plan: &PlanReference,
    from_seq: i64,
    limit: u64,
) -> Result<JournalPage, CommandFailure> {
    let reply = app.call(PlanLog {
        plan: plan.clone(),
        from_seq: Some(from_seq),
        limit: Some(limit),
    })?;
    Ok(reply.answer)
}
