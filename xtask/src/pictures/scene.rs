//! What is photographed: a shop in a git repository, an action for it, and three plans.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;
use tempfile::TempDir;

use super::screen::{Cell, Screen};
use super::steady::Steady;
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

/// A home with data in it. It is gone when dropped.
pub(super) struct Scene {
    program: PathBuf,
    home: TempDir,
    /// The plan that was thought about.
    plan: String,
}

impl Scene {
    /// Lets the program make everything except the thoughts, which `story` has.
    pub(super) fn set(program: &Path, story: &Path) -> Result<Self> {
        let mut scene = Self {
            program: program.to_owned(),
            home: TempDir::with_prefix("agents-pictures-")?,
            plan: String::new(),
        };
        let shop = scene.home.path().join("shop");
        files::write(&shop.join("src/cart.rs"), "pub fn round_up() {}\n")?;
        files::write(&shop.join("lint.yaml"), ACTION)?;
        process::capture(scene.start("git").args(["init", "--quiet"]))?;
        scene.answer(&["action", "create", "--config", "lint.yaml"])?;
        scene.answer(&["project", "create", "shop", "--path", "."])?;
        let usual = ["plan", "use", "local/lint", "local/shop", "--arg"];
        let rule = ["level=pedantic", "--invariant", "no new dependencies"];
        scene.plan = plan_id(&scene.answer(&[&usual[..], &rule[..]].concat())?)?;
        process::capture(scene.start(story).arg(scene.data()).arg(&scene.plan))?;
        let other = scene.answer(&[&usual[..], &["level=style"]].concat())?;
        scene.answer(&["plan", "cancel", &plan_id(&other)?])?;
        scene.answer(&[&usual[..], &["level=deny"]].concat())?;
        Ok(scene)
    }

    /// The pictures, by the names of their files.
    pub(super) fn pictures(&self) -> Result<Vec<(&'static str, Picture)>> {
        let plan = self.plan.as_str();
        let mut steady = Steady::default();
        self.know_ids(&mut steady)?;
        let mut pictures = vec![
            (
                "action-show.svg",
                self.picture(&steady, &["action", "show", "local/lint"])?,
            ),
            ("plan-list.svg", self.picture(&steady, &["plan", "list"])?),
            (
                "plan-status.svg",
                self.picture(&steady, &["plan", "status", plan])?,
            ),
            (
                "plan-tree.svg",
                self.picture(&steady, &["plan", "tree", plan])?,
            ),
        ];
        let begin = self.decision("Begin with the cart")?;
        let guidance = ["-g", "prices first"];
        let correct = ["plan", "correct", &begin, "--mode", "revert"];
        let correct = [&correct[..], &guidance[..]].concat();
        let dry = [&correct[..], &["--dry-run"]].concat();
        pictures.push(("plan-correct.svg", self.picture(&steady, &dry)?));
        self.answer(&[&correct[..], &["--yes"]].concat())?;
        self.know_ids(&mut steady)?;
        let whole = ["plan", "tree", plan, "--show-superseded"];
        pictures.push(("plan-tree-superseded.svg", self.picture(&steady, &whole)?));
        pictures.push(("demo.svg", self.demo()?));
        Ok(pictures)
    }

    /// The demo, which has a data directory of its own; it is kept to learn its ids.
    fn demo(&self) -> Result<Picture> {
        let folder = self.home.path().join("tmp");
        std::fs::create_dir(&folder)?;
        let mut agents = self.start(&self.program);
        agents.args(["demo", "--keep"]).env("TMPDIR", &folder);
        let text = terminal::printed(agents, COLUMNS)?;
        let mut kept = std::fs::read_dir(&folder)?;
        let kept = kept.next().context("the demo kept nothing")??.path();
        let data = kept.join("data");
        let there = ["--data-dir", data.to_str().context("no such path")?];
        let plans = self.answer(&[&["plan", "list"], &there[..]].concat())?;
        let mut steady = Steady::default();
        for plan in plans["data"]["plans"].as_array().context("no plans")? {
            let id = plan["plan_id"].as_str().context("a plan without an id")?;
            let tree = self.answer(&[&["plan", "tree", id], &there[..]].concat())?;
            let nodes = tree["data"]["nodes"].as_array().context("no decisions")?;
            for node in nodes {
                steady.know(node["id"].as_str().context("a decision without an id")?);
            }
        }
        let mut screen = Screen::read(terminal::settled(&text))?;
        // That it was kept is no part of the picture.
        let hints = |line: &Vec<Cell>| line.first().is_some_and(|it| it.character == '→');
        screen.lines.retain(|line| !hints(line));
        steady.screen(&mut screen);
        Ok(Picture {
            command: "agents demo".to_owned(),
            screen,
        })
    }

    fn picture(&self, steady: &Steady, arguments: &[&str]) -> Result<Picture> {
        let mut agents = self.start(&self.program);
        agents.args(arguments);
        let mut screen = Screen::read(&terminal::printed(agents, COLUMNS)?)?;
        steady.screen(&mut screen);
        let typed: Vec<String> = arguments.iter().map(|it| typed(steady, it)).collect();
        Ok(Picture {
            command: format!("agents {}", typed.join(" ")),
            screen,
        })
    }

    /// Tells `steady` every id that a picture may show, in an order that is always the same.
    fn know_ids(&self, steady: &mut Steady) -> Result<()> {
        let whole = ["plan", "tree", &self.plan, "--show-superseded"];
        steady.know(&self.plan);
        for (arguments, list, key) in [
            (&whole[..], "nodes", "id"),
            (&["plan", "list"][..], "plans", "plan_id"),
        ] {
            let answer = self.answer(arguments)?;
            let rows = answer["data"][list].as_array();
            for row in rows.with_context(|| format!("no {list} in {answer}"))? {
                steady.know(row[key].as_str().context("a row without an id")?);
            }
        }
        Ok(())
    }

    /// The id of the decision for `chosen`.
    fn decision(&self, chosen: &str) -> Result<String> {
        let answer = self.answer(&["plan", "tree", &self.plan])?;
        let nodes = answer["data"]["nodes"].as_array().context("no decisions")?;
        let found = nodes.iter().find(|node| node["description"] == chosen);
        let id = found.and_then(|node| node["id"].as_str());
        Ok(id.context("the story has no such decision")?.to_owned())
    }

    /// What the program answers to other programs.
    fn answer(&self, arguments: &[&str]) -> Result<Value> {
        let mut agents = self.start(&self.program);
        let text = process::capture(agents.args(arguments).args(["--format", "json"]))?;
        Ok(serde_json::from_str(&text)?)
    }

    /// A program in the shop, with nothing of this machine around it.
    fn start(&self, program: impl AsRef<OsStr>) -> Command {
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

/// An argument as a person types it: ids short, blanks quoted.
fn typed(steady: &Steady, argument: &str) -> String {
    let fixed = steady.text(argument);
    match fixed.contains(' ') {
        true => format!("'{fixed}'"),
        false if fixed != argument => fixed[fixed.len() - 8..].to_ascii_lowercase(),
        false => fixed,
    }
}
