//! The end of a run: the review of its result on a terminal, the diff and one question until it is
//! decided, then the apply.

use cleveragents_api::plan::diff::{DiffFile, PlanDiffAnswer};
use cleveragents_api::plan::drive::DriveAnswer;
use cleveragents_api::plan::{
    PlanApply, PlanDiff, PlanExecute, PlanPreviewApply, PlanReject, PlanRevert,
};
use cleveragents_api::{NextStep, Reply, Request};
use cleveragents_domain::apply_record::Destination;
use cleveragents_domain::id::PlanId;
use cleveragents_domain::{Phase, PlanState};
use serde_json::Value;

use super::activity::ActivityLine;
use super::apply::apply;
use super::diff_stat;
use super::progress::{PlanProgress, run_work};
use super::question::answer_questions;
use crate::bootstrap::AppContext;
use crate::commands::CommandContext;
use crate::confirmation::{ask_unless_interrupted, is_interactive};
use crate::failure::{CommandFailure, ExitCode, FailureKind};
use crate::output::Tone;
use crate::process::show_in_pager;

const CHOICES: &str = "  y apply · s show the diff · r reject files · f feedback and redo · \
                       b apply to a branch · n not now";

/// Rows that stay free for the question below a diff.
const ROWS_FOR_QUESTION: usize = 6;

/// The reason of a rejection if the user gives none.
const REJECTED: &str = "rejected at the review of the result";

/// A run whose result is reviewed.
pub(crate) struct Review<'a> {
    pub(crate) app: &'a AppContext<'a>,
    pub(crate) progress: &'a PlanProgress,
    pub(crate) context: &'a CommandContext<'a>,
    pub(crate) plan: PlanId,
    /// The question whether to apply the result.
    pub(crate) question: String,
    /// Where to apply it; the current branch if `None`.
    pub(crate) to: Option<Destination>,
    /// The destination as the user typed it, for next steps.
    pub(crate) typed_to: Option<Value>,
}

/// The user's decision.
enum ReviewOutcome {
    /// To the destination of the run.
    Apply,
    ApplyTo(Destination),
    /// The plan returned to Strategize.
    Redo,
    Later,
    /// The user pressed Ctrl-C.
    Interrupted,
}

/// An answer to a question other than the last one.
enum ReviewStep {
    Done(ReviewOutcome),
    AskAgain,
}

impl Review<'_> {
    /// Takes the reply of a plan that ran, and continues until the result is applied or kept for
    /// later.
    pub(crate) fn finish(
        &self,
        mut reply: Reply<DriveAnswer>,
    ) -> Result<Reply<DriveAnswer>, CommandFailure> {
        loop {
            reply = answer_questions(self.app, self.progress, self.context, reply)?;
            if !is_executed(&reply.answer) {
                if reply.answer.plan().state == PlanState::Applied {
                    self.show_stat_of_applied();
                }
                return Ok(with_destination(reply, self.typed_to.as_ref()));
            }
            let destination = match self.decide()? {
                ReviewOutcome::Apply => self.to.clone(),
                ReviewOutcome::ApplyTo(destination) => Some(destination),
                ReviewOutcome::Redo => {
                    reply = self.execute_again()?;
                    continue;
                }
                ReviewOutcome::Later => {
                    let warnings = self.secret_warnings()?.into_iter();
                    let reply = warnings.fold(reply, Reply::warn);
                    let reply = with_destination(reply, self.typed_to.as_ref());
                    return Ok(reply.with_exit(ExitCode::Decision));
                }
                ReviewOutcome::Interrupted => return Err(self.interrupted_failure()),
            };
            self.app.check_not_interrupted(self.plan)?;
            let request = self.apply_request(destination);
            return apply(self.app, self.progress, self.plan, request);
        }
    }

    /// Shows the changed files of an applied plan. The plan is applied whether or not its sandbox
    /// still has them, so an error is none of the command.
    fn show_stat_of_applied(&self) {
        if let Ok(diff) = self.diff() {
            self.progress.show_lines(&diff_stat::lines(&diff));
        }
    }

    /// Asks what to do with the result. Without a terminal, it is kept for later.
    fn decide(&self) -> Result<ReviewOutcome, CommandFailure> {
        let mut diff = self.diff()?;
        if !is_interactive(self.context.environment) {
            self.progress.show_lines(&diff_stat::lines(&diff));
            return Ok(ReviewOutcome::Later);
        }
        self.show(&diff_stat::lines(&diff));
        self.show_short_patch(&diff)?;
        loop {
            let Some(line) = self.ask(&self.question()?) else {
                return Ok(ReviewOutcome::Interrupted);
            };
            let step = match line.to_ascii_lowercase().as_str() {
                "y" | "yes" | "a" | "apply" => ReviewStep::Done(ReviewOutcome::Apply),
                "s" | "show" => {
                    self.show_patch(&diff)?;
                    ReviewStep::AskAgain
                }
                "r" | "reject" => {
                    let step = self.reject(&diff)?;
                    diff = self.diff()?;
                    self.show(&diff_stat::lines(&diff));
                    step
                }
                "f" | "feedback" => self.redo()?,
                "b" | "branch" => self.branch(),
                _ => ReviewStep::Done(ReviewOutcome::Later),
            };
            if let ReviewStep::Done(outcome) = step {
                return Ok(outcome);
            }
        }
    }

    fn diff(&self) -> Result<PlanDiffAnswer, CommandFailure> {
        Ok(self.app.call(diff_request(self.plan))?.answer)
    }

    /// Returns the warnings about known secrets that the plan wrote into files.
    fn secret_warnings(&self) -> Result<Vec<String>, CommandFailure> {
        let plan = self.plan.into();
        let preview = self.app.call(PlanPreviewApply { plan })?.answer;
        Ok(preview.secret_warnings)
    }

    fn apply_request(&self, to: Option<Destination>) -> PlanApply {
        PlanApply {
            plan: self.plan.into(),
            to,
            mark_applied: false,
            force_checks: None,
        }
    }

    /// Runs a plan that returned to Strategize up to its result; the feedback that sent it there is
    /// the approval of both phases.
    fn execute_again(&self) -> Result<Reply<DriveAnswer>, CommandFailure> {
        let run = || {
            let request = PlanExecute {
                plan: self.plan.into(),
                detach: false,
            };
            run_work(self.app, self.progress, self.plan, request)
        };
        let reply = run()?;
        let plan = reply.answer.plan();
        if (plan.phase, plan.state) == (Phase::Strategize, PlanState::Complete) {
            return run();
        }
        Ok(reply)
    }

    /// Returns the failure for Ctrl-C at the question: the work is done and can be applied later to
    /// the same destination.
    fn interrupted_failure(&self) -> CommandFailure {
        let mut apply = NextStep::send(&self.apply_request(self.to.clone()));
        add_destination(&mut apply, self.typed_to.as_ref());
        CommandFailure::new(
            ExitCode::Interrupted,
            "interrupted; the plan is executed, and your files are unchanged",
        )
        .kind(FailureKind::Interrupted)
        .hint(NextStep::send(&diff_request(self.plan)))
        .hint(apply)
        .with_plan_id(self.plan)
    }

    /// Returns the question, after the facts that the user needs for the answer.
    fn question(&self) -> Result<String, CommandFailure> {
        let mut lines = self.secret_warnings()?;
        lines.push(self.question.clone());
        lines.push(CHOICES.to_owned());
        Ok(lines.join("\n") + "\n[y/N] ")
    }

    /// Asks for a line; returns `None` if the user pressed Ctrl-C.
    fn ask(&self, prompt: &str) -> Option<String> {
        let asked = ask_unless_interrupted(prompt);
        let line = self.progress.suspend(|| self.app.block_on(asked));
        line.map(|line| line.trim().to_owned())
    }

    /// Prints the diff if it fits on the screen; else says how to see it.
    fn show_short_patch(&self, diff: &PlanDiffAnswer) -> Result<(), CommandFailure> {
        let lines = |patch: &[u8]| patch.split(|byte| *byte == b'\n').count();
        let lines: usize = patches(diff).map(lines).sum();
        let rows = usize::from(self.context.environment.height());
        if lines <= rows.saturating_sub(ROWS_FOR_QUESTION) {
            return self.print_patch(diff);
        }
        let text = format!("the diff has {lines} lines: s shows it");
        let line = ActivityLine::new(0, text, Tone::Normal);
        self.show(&[line]);
        Ok(())
    }

    fn print_patch(&self, diff: &PlanDiffAnswer) -> Result<(), CommandFailure> {
        let lines = &self.context.lines;
        self.progress.suspend(|| {
            if !self.is_stdout_for_people() {
                patches(diff).for_each(|patch| lines.patch_for_people(patch));
                return Ok(());
            }
            patches(diff).try_for_each(|patch| lines.patch(patch).map(drop))
        })
    }

    fn is_stdout_for_people(&self) -> bool {
        self.context.environment.stdout.is_terminal() && !self.progress.writes_events()
    }

    /// Shows lines about the result that the question is about.
    fn show(&self, lines: &[ActivityLine]) {
        self.progress.show_for_question(lines);
    }

    /// Shows the whole diff in a pager, or prints it if there is none.
    fn show_patch(&self, diff: &PlanDiffAnswer) -> Result<(), CommandFailure> {
        let lines = &self.context.lines;
        let text: String = patches(diff).map(|patch| lines.patch_text(patch)).collect();
        let environment = self.context.environment;
        let show = || self.progress.suspend(|| show_in_pager(&text, environment));
        if self.is_stdout_for_people() && show() {
            return Ok(());
        }
        self.print_patch(diff)
    }

    /// Removes files or hunks from the result.
    fn reject(&self, diff: &PlanDiffAnswer) -> Result<ReviewStep, CommandFailure> {
        let numbered = diff.files.iter().zip(1..);
        let numbered: Vec<ActivityLine> = numbered
            .map(|(file, number)| {
                let text = format!("{number}. {} {}", file.path, file.change);
                ActivityLine::new(2, text, Tone::Normal)
            })
            .collect();
        self.show(&numbered);
        let Some(files) = self.ask("Reject which? Numbers, FILE or FILE:HUNK, with spaces: ")
        else {
            return Ok(ReviewStep::Done(ReviewOutcome::Interrupted));
        };
        if files.is_empty() {
            return Ok(ReviewStep::AskAgain);
        }
        let Some(why) = self.ask("Why? ") else {
            return Ok(ReviewStep::Done(ReviewOutcome::Interrupted));
        };
        for word in files.split_whitespace() {
            let request = self.rejection(diff, word, &why);
            let part = request.part.clone();
            let line = match self.app.call(request) {
                Ok(_) => ActivityLine::new(2, format!("{part} rejected"), Tone::Good),
                Err(failure) => {
                    let text = format!("{part} not rejected: {failure}");
                    ActivityLine::new(2, text, Tone::Bad)
                }
            };
            self.show(&[line]);
        }
        Ok(ReviewStep::AskAgain)
    }

    fn rejection(&self, diff: &PlanDiffAnswer, word: &str, why: &str) -> PlanReject {
        let number = word.parse::<usize>().ok();
        let file = number.and_then(|number| diff.files.get(number.checked_sub(1)?));
        let part = |file: &DiffFile| file.path.to_string().replace(':', "%3A");
        PlanReject {
            plan: self.plan.into(),
            part: file.map_or_else(|| word.to_owned(), part),
            why: if why.is_empty() { REJECTED } else { why }.to_owned(),
            resource: file.map(|file| file.resource.clone()),
        }
    }

    /// Returns the plan to Strategize, with the user's feedback.
    fn redo(&self) -> Result<ReviewStep, CommandFailure> {
        let Some(feedback) = self.ask("Feedback: ") else {
            return Ok(ReviewStep::Done(ReviewOutcome::Interrupted));
        };
        if feedback.is_empty() {
            return Ok(ReviewStep::AskAgain);
        }
        let request = PlanRevert {
            plan: self.plan.into(),
            to_phase: None,
            reason: Some(feedback),
        };
        Ok(match self.app.call(request) {
            Ok(_) => ReviewStep::Done(ReviewOutcome::Redo),
            Err(failure) => {
                let text = format!("not done again: {failure}");
                self.show(&[ActivityLine::new(2, text, Tone::Bad)]);
                ReviewStep::AskAgain
            }
        })
    }

    fn branch(&self) -> ReviewStep {
        let usual = format!("agents/{}", self.plan.short());
        let Some(name) = self.ask(&format!("Branch [{usual}]: ")) else {
            return ReviewStep::Done(ReviewOutcome::Interrupted);
        };
        let name = if name.is_empty() { usual } else { name };
        ReviewStep::Done(ReviewOutcome::ApplyTo(Destination::Branch(name)))
    }
}

fn patches(diff: &PlanDiffAnswer) -> impl Iterator<Item = &[u8]> {
    let resources = diff.resources.iter();
    resources.filter_map(|it| it.patch_bytes.as_deref())
}

/// Whether the plan is executed and not applied.
pub(crate) fn is_executed(answer: &DriveAnswer) -> bool {
    let plan = answer.plan();
    let executed = (plan.phase, plan.state) == (Phase::Execute, PlanState::Complete);
    let applying = plan.phase == Phase::Apply
        && !matches!(
            plan.state,
            PlanState::Applied | PlanState::Cancelled | PlanState::Unapplied
        );
    matches!(answer, DriveAnswer::Executed(_)) && (executed || applying)
}

/// Names the destination, as the user typed it, in the next steps that apply the plan.
fn with_destination(mut reply: Reply<DriveAnswer>, to: Option<&Value>) -> Reply<DriveAnswer> {
    for message in &mut reply.messages {
        add_destination(&mut message.content, to);
    }
    reply
}

fn add_destination(step: &mut NextStep, to: Option<&Value>) {
    if let NextStep::Request {
        name, arguments, ..
    } = step
        && name == PlanApply::NAME
        && let Some(to) = to
    {
        arguments.insert("to".to_owned(), to.clone());
    }
}

fn diff_request(id: PlanId) -> PlanDiff {
    PlanDiff {
        plan: id.into(),
        patch: false,
        files: Vec::new(),
        resource: None,
    }
}
