//! The contents of the pictures: a shop in a git repository, an action for it, and three plans.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;
use tempfile::TempDir;

use super::normalizer::IdNormalizer;
use super::screen::{Screen, ScreenCell};
use super::svg::Picture;
use super::terminal;
use crate::{environment, files, process};

const COLUMNS: u16 = 96;

const ACTION: &str = "\
name: local/lint
description: 'Remove the {{ args.level }} warnings'
strategy_actor: builtin/direct
execution_actor: builtin/direct
definition_of_done: no {{ args.level }} warnings are left
arguments:
  - name: level
    type: string
    required: true
    description: how picky to be
invariants:
  - keep the public interface
";

/// A home with data in it; removed when dropped.
pub(super) struct PictureFixture {
    program: PathBuf,
    home: TempDir,
    /// The plan that has decisions.
    plan: String,
}

impl PictureFixture {
    /// Creates everything with the program, except the decisions, which `story` adds.
    pub(super) fn create(program: &Path, story: &Path) -> Result<Self> {
        let mut fixture = Self {
            program: program.to_owned(),
            home: TempDir::with_prefix("agents-pictures-")?,
            plan: String::new(),
        };
        let shop = fixture.home.path().join("shop");
        files::write(&shop.join("src/cart.rs"), "pub fn round_up() {}\n")?;
        files::write(&shop.join("lint.yaml"), ACTION)?;
        process::capture(fixture.fixture_command("git").args(["init", "--quiet"]))?;
        fixture.run_json(&["action", "create", "--config", "lint.yaml"])?;
        fixture.run_json(&["project", "create", "shop", "--path", "."])?;
        let usual = ["plan", "use", "local/lint", "local/shop", "--arg"];
        let rule = ["level=pedantic", "--invariant", "no new dependencies"];
        fixture.plan = plan_id(&fixture.run_json(&[&usual[..], &rule[..]].concat())?)?;
        process::capture(
            fixture
                .fixture_command(story)
                .arg(fixture.data())
                .arg(&fixture.plan),
        )?;
        let other = fixture.run_json(&[&usual[..], &["level=style"]].concat())?;
        fixture.run_json(&["plan", "cancel", &plan_id(&other)?])?;
        fixture.run_json(&[&usual[..], &["level=deny"]].concat())?;
        Ok(fixture)
    }

    /// The pictures, by file name.
    pub(super) fn pictures(&self) -> Result<Vec<(&'static str, Picture)>> {
        let plan = self.plan.as_str();
        let mut normalizer = IdNormalizer::default();
        self.register_ids(&mut normalizer)?;
        let mut pictures = vec![
            (
                "action-show.svg",
                self.picture(&normalizer, &["action", "show", "local/lint"])?,
            ),
            (
                "plan-list.svg",
                self.picture(&normalizer, &["plan", "list"])?,
            ),
            (
                "plan-status.svg",
                self.picture(&normalizer, &["plan", "status", plan])?,
            ),
            (
                "plan-tree.svg",
                self.picture(&normalizer, &["plan", "tree", plan])?,
            ),
        ];
        let begin = self.decision_id("Begin with the cart")?;
        let guidance = ["-g", "prices first"];
        let correct = ["plan", "correct", &begin, "--mode", "revert"];
        let correct = [&correct[..], &guidance[..]].concat();
        let dry = [&correct[..], &["--dry-run"]].concat();
        pictures.push(("plan-correct.svg", self.picture(&normalizer, &dry)?));
        self.run_json(&[&correct[..], &["--yes"]].concat())?;
        self.register_ids(&mut normalizer)?;
        let whole = ["plan", "tree", plan, "--show-superseded"];
        pictures.push((
            "plan-tree-superseded.svg",
            self.picture(&normalizer, &whole)?,
        ));
        pictures.push(("demo.svg", self.demo()?));
        Ok(pictures)
    }

    /// The demo, which has its own data directory; it is kept to read its ids.
    fn demo(&self) -> Result<Picture> {
        let folder = self.home.path().join("tmp");
        std::fs::create_dir(&folder)?;
        let mut agents = self.fixture_command(&self.program);
        agents.args(["demo", "--keep"]).env("TMPDIR", &folder);
        let text = terminal::capture_terminal(agents, COLUMNS)?;
        let mut kept = std::fs::read_dir(&folder)?;
        let kept = kept.next().context("the demo kept nothing")??.path();
        let data = kept.join("data");
        let there = ["--data-dir", data.to_str().context("no such path")?];
        let plans = self.run_json(&[&["plan", "list"], &there[..]].concat())?;
        let mut normalizer = IdNormalizer::default();
        for plan in plans["data"]["plans"].as_array().context("no plans")? {
            let id = plan["plan_id"].as_str().context("a plan without an id")?;
            let tree = self.run_json(&[&["plan", "tree", id], &there[..]].concat())?;
            let nodes = tree["data"]["nodes"].as_array().context("no decisions")?;
            for node in nodes {
                normalizer.register_id(node["id"].as_str().context("a decision without an id")?);
            }
        }
        let mut screen = Screen::parse(terminal::final_screen(&text))?;
        // The hint about the kept folder is not part of the picture.
        let hints = |line: &Vec<ScreenCell>| line.first().is_some_and(|it| it.character == '→');
        screen.lines.retain(|line| !hints(line));
        normalizer.normalize_screen(&mut screen);
        Ok(Picture {
            command: "agents demo".to_owned(),
            screen,
        })
    }

    fn picture(&self, normalizer: &IdNormalizer, arguments: &[&str]) -> Result<Picture> {
        let mut agents = self.fixture_command(&self.program);
        agents.args(arguments);
        let mut screen = Screen::parse(&terminal::capture_terminal(agents, COLUMNS)?)?;
        normalizer.normalize_screen(&mut screen);
        let typed: Vec<String> = arguments
            .iter()
            .map(|it| format_argument(normalizer, it))
            .collect();
        Ok(Picture {
            command: format!("agents {}", typed.join(" ")),
            screen,
        })
    }

    /// Registers every id that a picture may show, in a fixed order.
    fn register_ids(&self, normalizer: &mut IdNormalizer) -> Result<()> {
        let whole = ["plan", "tree", &self.plan, "--show-superseded"];
        normalizer.register_id(&self.plan);
        for (arguments, list, key) in [
            (&whole[..], "nodes", "id"),
            (&["plan", "list"][..], "plans", "plan_id"),
        ] {
            let answer = self.run_json(arguments)?;
            let rows = answer["data"][list].as_array();
            for row in rows.with_context(|| format!("no {list} in {answer}"))? {
                normalizer.register_id(row[key].as_str().context("a row without an id")?);
            }
        }
        Ok(())
    }

    fn decision_id(&self, chosen: &str) -> Result<String> {
        let answer = self.run_json(&["plan", "tree", &self.plan])?;
        let nodes = answer["data"]["nodes"].as_array().context("no decisions")?;
        let found = nodes.iter().find(|node| node["description"] == chosen);
        let id = found.and_then(|node| node["id"].as_str());
        Ok(id.context("the story has no such decision")?.to_owned())
    }

    /// The program's JSON output.
    fn run_json(&self, arguments: &[&str]) -> Result<Value> {
        let mut agents = self.fixture_command(&self.program);
        let text = process::capture(agents.args(arguments).args(["--format", "json"]))?;
        Ok(serde_json::from_str(&text)?)
    }

    /// A program in the shop, isolated from this machine's environment.
    fn fixture_command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = process::command(program);
        command
            .current_dir(self.home.path().join("shop"))
            .env_clear()
            .env("PATH", environment::variable("PATH").unwrap_or_default())
            .env("HOME", self.home.path())
            .env("LANG", "C.UTF-8")
            .env("TERM", "xterm-256color");
        command
    }

    fn data(&self) -> PathBuf {
        self.home.path().join(".cleveragents")
    }
}

fn plan_id(answer: &Value) -> Result<String> {
    let id = answer["data"]["plan_id"].as_str();
    Ok(id.context("an answer without a plan")?.to_owned())
}

/// An argument as a user types it: short ids, quoted blanks.
fn format_argument(normalizer: &IdNormalizer, argument: &str) -> String {
    let fixed = normalizer.normalize_text(argument);
    if fixed.contains(' ') {
        format!("'{fixed}'")
    } else if fixed != argument {
        fixed[fixed.len() - 8..].to_ascii_lowercase()
    } else {
        fixed
    }
}
