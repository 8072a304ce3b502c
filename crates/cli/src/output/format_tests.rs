//! Each block and message in each format for people, and the envelope in YAML, from values.
//!
//! The snapshots of commands are JSON and plain only; how a format looks is tested here once.

use cleveragents_api::plan::PlanConflict;
use serde_json::json;

use super::*;

fn plan_panel() -> OutputView {
    OutputView::new().panel(
        "Plan",
        [
            ("name", ViewCell::new("local/lint-7f2k", Tone::Strong)),
            ("state", ViewCell::new("execute/complete", Tone::Good)),
            ("projects", "local/shop, local/site".into()),
        ],
    )
}

fn plan_table() -> OutputView {
    OutputView::new().table(
        "Plans",
        &["plan", "state", "does"],
        [
            vec![
                "7f2k".into(),
                ViewCell::new("errored", Tone::Bad),
                "Lint the shop and everything that depends on it".into(),
            ],
            vec![
                "9x0q".into(),
                ViewCell::new("queued", Tone::Faint),
                "Greet".into(),
            ],
        ],
    )
}

fn decision_tree() -> OutputView {
    let row = |depth, text: &str| TreeRow {
        depth,
        cells: vec![text.into(), ViewCell::new("0.82", Tone::Doubtful)],
    };
    let rows = [
        row(0, "Lint the shop"),
        row(1, "Begin with the cart"),
        row(2, "src/cart.rs and its tests"),
        row(1, "Then the prices"),
    ];
    OutputView::new().tree("Decisions", rows)
}

fn patch() -> OutputView {
    let text = "--- a/cart.rs\n+++ b/cart.rs\n@@ -1,2 +1,2 @@\n fn cart() {\n-    1\n+    2\n";
    OutputView::new().patch(text.as_bytes().to_vec())
}

fn prose() -> OutputView {
    OutputView::new().text("Nothing was changed, because every check passed before and after.")
}

fn render(view: OutputView, format: Format) -> String {
    render_answer(answer(view), format, ColourMode::No)
}

fn answer(view: OutputView) -> CommandAnswer {
    CommandAnswer::new(&json!({}), view).unwrap()
}

/// Returns stdout, and stderr behind a line of dashes if there is any, without trailing spaces.
fn render_answer(answer: CommandAnswer, format: Format, colour: ColourMode) -> String {
    render_outcome(Ok(answer), format, colour)
}

fn render_outcome(
    outcome: Result<CommandAnswer, CommandFailure>,
    format: Format,
    colour: ColourMode,
) -> String {
    let report = CommandReport {
        command: "plan status".to_owned(),
        started: Timestamp::default(),
        duration: Duration::from_millis(7),
        outcome,
    };
    let options = RenderOptions {
        format,
        stdout: colour,
        stderr: colour,
        width: 48,
        piped: false,
        verbosity: Verbosity::Normal,
        shape: EnvelopeShape::Whole,
        clock: crate::local_time::LocalClock::new(jiff::tz::TimeZone::UTC, Timestamp::default()),
    };
    let rendered = report.render(&options, &Redactor::default());
    let mut text = String::from_utf8(rendered.stdout).unwrap();
    if !rendered.stderr.is_empty() {
        text = format!("{text}----\n{}", rendered.stderr);
    }
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n").replace('\x1b', "␛")
}

fn messages() -> CommandAnswer {
    answer(prose())
        .with_message(MessageLevel::Info, "1 plan")
        .with_message(
            MessageLevel::Warn,
            "`.env` has changes that are not in the sandbox",
        )
        .with_message(MessageLevel::Hint, "agents plan apply 7f2k")
}

fn failure() -> CommandFailure {
    let conflict = PlanConflict {
        path: Some("src/cart.rs".parse().unwrap()),
        place: None,
        reason: "it has changes that are not committed".to_owned(),
    };
    CommandFailure::new(crate::failure::ExitCode::Conflict, "cannot apply 7f2k")
        .because("src/cart.rs has changes that are not committed")
        .hint("git stash")
        .with_facts(|facts| facts.conflicts = Some(vec![conflict]))
}

#[test]
fn a_panel_in_rich() {
    insta::assert_snapshot!(render(plan_panel(), Format::Rich), @r"
    ╭─ Plan ────────────────────────────╮
    │ name       local/lint-7f2k        │
    │ state      execute/complete       │
    │ projects   local/shop, local/site │
    ╰───────────────────────────────────╯
    ");
}

#[test]
fn a_panel_in_color() {
    insta::assert_snapshot!(render(plan_panel(), Format::Color), @r"
    Plan
     name      local/lint-7f2k
     state     execute/complete
     projects  local/shop, local/site
    ");
}

#[test]
fn a_panel_in_table() {
    insta::assert_snapshot!(render(plan_panel(), Format::Table), @r"
    Plan
    +----------+------------------------+
    | name     | local/lint-7f2k        |
    | state    | execute/complete       |
    | projects | local/shop, local/site |
    +----------+------------------------+
    ");
}

#[test]
fn a_table_in_rich() {
    insta::assert_snapshot!(render(plan_table(), Format::Rich), @r"
    ╭─ Plans ──────────────────────────────────────╮
    │ plan   state     does                        │
    ├──────────────────────────────────────────────┤
    │ 7f2k   errored   Lint the shop and           │
    │                  everything that depends on  │
    │                  it                          │
    │ 9x0q   queued    Greet                       │
    ╰──────────────────────────────────────────────╯
    ");
}

#[test]
fn a_table_in_color() {
    insta::assert_snapshot!(render(plan_table(), Format::Color), @r"
    Plans
     plan  state    does
     7f2k  errored  Lint the shop and everything
                    that depends on it
     9x0q  queued   Greet
    ");
}

#[test]
fn a_table_in_table() {
    insta::assert_snapshot!(render(plan_table(), Format::Table), @r"
    Plans
    +------+---------+-----------------------------+
    | plan | state   | does                        |
    +==============================================+
    | 7f2k | errored | Lint the shop and           |
    |      |         | everything that depends on  |
    |      |         | it                          |
    | 9x0q | queued  | Greet                       |
    +------+---------+-----------------------------+
    ");
}

#[test]
fn a_tree_in_rich() {
    insta::assert_snapshot!(render(decision_tree(), Format::Rich), @r"
    Decisions
    Lint the shop 0.82
    ├─ Begin with the cart 0.82
    │  └─ src/cart.rs and its tests 0.82
    └─ Then the prices 0.82
    ");
}

#[test]
fn a_tree_in_color() {
    insta::assert_snapshot!(render(decision_tree(), Format::Color), @r"
    Decisions
    Lint the shop 0.82
    ├─ Begin with the cart 0.82
    │  └─ src/cart.rs and its tests 0.82
    └─ Then the prices 0.82
    ");
}

#[test]
fn a_tree_in_table() {
    insta::assert_snapshot!(render(decision_tree(), Format::Table), @r"
    Decisions
    Lint the shop 0.82
    |- Begin with the cart 0.82
    |  `- src/cart.rs and its tests 0.82
    `- Then the prices 0.82
    ");
}

#[test]
fn a_patch_for_people() {
    insta::assert_snapshot!(render(patch(), Format::Rich), @r"
    --- a/cart.rs
    +++ b/cart.rs
    @@ -1,2 +1,2 @@
     fn cart() {
    -    1
    +    2
    ");
}

#[test]
fn prose_is_wrapped() {
    insta::assert_snapshot!(render(prose(), Format::Rich), @r"
    Nothing was changed, because every check passed
    before and after.
    ");
}

#[test]
fn a_patch_in_colour() {
    insta::assert_snapshot!(render_answer(answer(patch()), Format::Rich, ColourMode::Yes), @r"
    ␛[1m--- a/cart.rs␛[0m
    ␛[1m+++ b/cart.rs␛[0m
    ␛[2m@@ -1,2 +1,2 @@␛[0m
     fn cart() {
    ␛[31m-    1␛[0m
    ␛[32m+    2␛[0m
    ");
}

#[test]
fn tones_in_colour() {
    insta::assert_snapshot!(render_answer(answer(plan_panel()), Format::Color, ColourMode::Yes), @r"
    ␛[1mPlan␛[0m
     ␛[38;5;6mname␛[39m      ␛[1mlocal/lint-7f2k␛[0m
     ␛[38;5;6mstate␛[39m     ␛[38;5;2mexecute/complete␛[39m
     ␛[38;5;6mprojects␛[39m  local/shop, local/site
    ");
}

#[test]
fn messages_in_rich() {
    insta::assert_snapshot!(render_answer(messages(), Format::Rich, ColourMode::No), @r"
    Nothing was changed, because every check passed
    before and after.
    ----
    ✓ OK 1 plan
    ! Warning: `.env` has changes that are not in the sandbox
    → Next: agents plan apply 7f2k
    ");
}

#[test]
fn a_failure_in_rich() {
    insta::assert_snapshot!(render_outcome(Err(failure()), Format::Rich, ColourMode::No), @r"
    ----
    ✗ Error: cannot apply 7f2k
      Why: src/cart.rs has changes that are not committed
      → Next: git stash
    ");
}

#[test]
fn messages_in_color() {
    insta::assert_snapshot!(render_answer(messages(), Format::Color, ColourMode::No), @r"
    Nothing was changed, because every check passed
    before and after.
    ----
    ✓ OK 1 plan
    ! Warning: `.env` has changes that are not in the sandbox
    → Next: agents plan apply 7f2k
    ");
}

#[test]
fn a_failure_in_color() {
    insta::assert_snapshot!(render_outcome(Err(failure()), Format::Color, ColourMode::No), @r"
    ----
    ✗ Error: cannot apply 7f2k
      Why: src/cart.rs has changes that are not committed
      → Next: git stash
    ");
}

#[test]
fn a_failure_in_table() {
    insta::assert_snapshot!(render_outcome(Err(failure()), Format::Table, ColourMode::No), @r"
    ----
    error: cannot apply 7f2k
      why: src/cart.rs has changes that are not committed
      next: git stash
    ");
}

#[test]
fn an_answer_in_yaml() {
    insta::assert_snapshot!(render_answer(messages(), Format::Yaml, ColourMode::No), @r#"
    command: plan status
    status: warn
    exit_code: 0
    data: {}
    timing:
      started: "1970-01-01T00:00:00.000000Z"
      duration_ms: 7
    messages:
    - level: info
      text: 1 plan
    - level: warn
      text: "`.env` has changes that are not in the sandbox"
    - level: hint
      text: agents plan apply 7f2k
    "#);
}

#[test]
fn a_failure_in_yaml() {
    insta::assert_snapshot!(render_outcome(Err(failure()), Format::Yaml, ColourMode::No), @r#"
    command: plan status
    status: error
    exit_code: 4
    data:
      conflicts:
      - path: src/cart.rs
        place: null
        reason: it has changes that are not committed
      error:
        causes:
        - src/cart.rs has changes that are not committed
        hints:
        - git stash
        kind: conflict
        message: cannot apply 7f2k
    timing:
      started: "1970-01-01T00:00:00.000000Z"
      duration_ms: 7
    messages:
    - level: error
      text: "cannot apply 7f2k: src/cart.rs has changes that are not committed"
    "#);
}
