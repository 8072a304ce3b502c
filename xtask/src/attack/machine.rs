//! A simulated machine for one attack: a home, repositories, and ways to run programs there as root
//! or as a regular user. It knows the program under attack only by its command line.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{environment, process};

use super::options::AttackAccount;

/// The folders of the system's programs.
pub const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The regular user's id when root runs the suite: `nobody`.
const USER_ID: u32 = 65534;

/// A command that takes longer counts as hanging.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The program under attack and the folder for simulated machines.
#[derive(Debug, Clone)]
pub struct Setup {
    pub program: PathBuf,
    pub base: PathBuf,
    pub keep: bool,
}

impl Setup {
    /// Finds a folder and a copy of the program that the regular user can reach, too.
    pub fn new(program: &Path, keep: bool) -> Result<Setup> {
        let candidates = [
            environment::target_dir(),
            "/var/lib".into(),
            std::env::temp_dir(),
        ];
        let reachable = candidates
            .iter()
            .filter(|it| can_access(AttackAccount::User, "-x", it));
        let mut made = reachable.filter_map(|parent| {
            let folder = tempfile::Builder::new()
                .prefix("attack-")
                .tempdir_in(parent);
            folder.ok().map(tempfile::TempDir::keep)
        });
        let base = made.next().context("no folder for made-up machines")?;
        fs::set_permissions(&base, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let mut program = program
            .canonicalize()
            .with_context(|| format!("{}", program.display()))?;
        if !can_access(AttackAccount::User, "-x", &program) {
            let copy = base.join("agents");
            fs::copy(&program, &copy)?;
            program = copy;
        }
        Ok(Setup {
            program,
            base,
            keep,
        })
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if !self.keep {
            // A failed removal does no harm: the base folder is removed at the end of the run as
            // well.
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}

/// The command line prefix that runs a command as that account.
pub fn account_prefix(account: AttackAccount) -> Vec<String> {
    if account == AttackAccount::Root || !environment::is_root() {
        return Vec::new();
    }
    let words = ["setpriv", "--clear-groups"].map(str::to_owned);
    let ids = [
        format!("--reuid={USER_ID}"),
        format!("--regid={USER_ID}"),
        "--".into(),
    ];
    [&words[..], &ids].concat()
}

fn can_access(account: AttackAccount, test: &str, path: &Path) -> bool {
    let words = [
        &account_prefix(account)[..],
        &["test".to_owned(), test.to_owned()],
    ]
    .concat();
    let mut command = process::command(&words[0]);
    command.args(&words[1..]).arg(path);
    command.status().is_ok_and(|status| status.success())
}

/// The result of a command.
#[derive(Debug, Clone, Default)]
pub struct CommandOutput {
    /// `None` if a signal or the time limit ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub timed_out: bool,
}

impl CommandOutput {
    pub fn is_ok(&self) -> bool {
        self.code == Some(0)
    }

    /// The envelope's data; of several lines, that of the last.
    pub fn data(&self) -> Value {
        let last = self.stdout.lines().last().unwrap_or_default();
        let whole = serde_json::from_str::<Value>(&self.stdout);
        let envelope = whole.or_else(|_| serde_json::from_str(last));
        envelope.map_or(Value::Null, |mut it| it["data"].take())
    }

    pub fn text(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// A one-line summary for reports.
    pub fn summary(&self) -> String {
        let end = match (self.timed_out, self.code) {
            (true, _) => "no answer within the limit".to_owned(),
            (false, Some(code)) => format!("exit code {code}"),
            (false, None) => "ended by a signal".to_owned(),
        };
        format!("{end}: {}", super::tally::shorten(&self.text()))
    }
}

/// A simulated machine. Dropping it removes its folder.
#[derive(Debug)]
pub struct Machine {
    root: PathBuf,
    program: PathBuf,
    account: AttackAccount,
    /// Variables in addition to the usual ones; an empty value removes the variable.
    pub variables: Vec<(String, String)>,
    /// A prefix for every command line, run as the account of the suite itself.
    pub outer: Vec<String>,
    /// A prefix for the program's command line, such as a launcher.
    pub launcher: Vec<String>,
    keep: bool,
}

impl Machine {
    pub fn new(setup: &Setup, account: AttackAccount) -> Result<Machine> {
        Machine::below(setup, account, &setup.base)
    }

    /// Creates the machine in another folder, such as `/tmp`.
    pub fn below(setup: &Setup, account: AttackAccount, parent: &Path) -> Result<Machine> {
        let root = tempfile::Builder::new()
            .prefix("machine-")
            .tempdir_in(parent)?
            .keep();
        let machine = Machine {
            root,
            program: setup.program.clone(),
            account,
            variables: Vec::new(),
            outer: Vec::new(),
            launcher: Vec::new(),
            keep: setup.keep,
        };
        fs::set_permissions(
            &machine.root,
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )?;
        if account == AttackAccount::User && environment::is_root() {
            chown(&machine.root, Some(USER_ID), Some(USER_ID))?;
        }
        machine.must_shell("mkdir home logs outside")?;
        Ok(machine)
    }

    pub fn program(&self) -> &Path {
        &self.program
    }

    pub fn account(&self) -> AttackAccount {
        self.account
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// A program with this machine's environment, in the root folder, as this machine's account.
    pub fn command(&self, words: &[&str]) -> Command {
        let all = [
            &self.outer[..],
            &account_prefix(self.account),
            &to_strings(words),
        ]
        .concat();
        let mut command = process::command(&all[0]);
        command
            .args(&all[1..])
            .current_dir(&self.root)
            .env_clear()
            .env("HOME", self.path("home"))
            .env("PATH", SEARCH_PATH)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::null());
        for (name, value) in &self.variables {
            if value.is_empty() {
                command.env_remove(name)
            } else {
                command.env(name, value)
            };
        }
        command
    }

    /// The program under attack with these arguments, behind the launcher.
    pub fn agents_command(&self, words: &[&str]) -> Command {
        let program = self.program.to_string_lossy();
        let mut all: Vec<&str> = self.launcher.iter().map(String::as_str).collect();
        all.push(&program);
        all.extend(words);
        let mut command = self.command(&all);
        command.current_dir(self.path("home"));
        command
    }

    /// Runs the program under attack with JSON output.
    pub fn agents(&self, words: &[&str]) -> Result<CommandOutput> {
        let words = [words, &["--format", "json"]].concat();
        self.run_command(&mut self.agents_command(&words), LIMIT)
    }

    /// Like [`Self::agents`], but fails unless it exits with 0.
    pub fn must_agents(&self, words: &[&str]) -> Result<CommandOutput> {
        let answer = self.agents(words)?;
        if !answer.is_ok() {
            bail!("agents {}: {}", words.join(" "), answer.summary());
        }
        Ok(answer)
    }

    /// Runs git as the user would, in a folder below the root.
    pub fn git(&self, folder: &str, words: &[&str]) -> Result<CommandOutput> {
        let mut command = self.command(&[&["git"], words].concat());
        command.current_dir(self.path(folder)).envs(git_identity());
        self.run_command(&mut command, LIMIT)
    }

    /// Git's output, trimmed. Fails unless it exits with 0.
    pub fn must_git(&self, folder: &str, words: &[&str]) -> Result<String> {
        let answer = self.git(folder, words)?;
        if !answer.is_ok() {
            bail!("git {} in {folder}: {}", words.join(" "), answer.summary());
        }
        Ok(answer.stdout.trim().to_owned())
    }

    /// Runs a script as the user would.
    pub fn shell(&self, script: &str) -> Result<CommandOutput> {
        let mut command = self.command(&["sh", "-c", script]);
        command.envs(git_identity());
        self.run_command(&mut command, LIMIT)
    }

    pub fn must_shell(&self, script: &str) -> Result<String> {
        let answer = self.shell(script)?;
        if !answer.is_ok() {
            bail!("`{}`: {}", super::tally::shorten(script), answer.summary());
        }
        Ok(answer.stdout)
    }

    /// Writes a file as the user would, creating parent folders.
    pub fn write(&self, relative: &str, content: &[u8]) -> Result<()> {
        let script = r#"mkdir -p "$(dirname "$1")" && cat > "$1""#;
        let path = self.path(relative);
        let mut command = self.command(&["sh", "-c", script, "sh", &path.to_string_lossy()]);
        let mut child = command.stdin(Stdio::piped()).spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(content)?;
        }
        if child.wait()?.success() {
            Ok(())
        } else {
            bail!("cannot write {}", path.display())
        }
    }

    pub fn read(&self, relative: &str) -> String {
        let bytes = fs::read(self.path(relative)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Runs a command to its end, or kills its process group at the limit.
    pub fn run_command(&self, command: &mut Command, limit: Duration) -> Result<CommandOutput> {
        RunningCommand::start(command)?.finish(limit)
    }
}

#[derive(Debug)]
pub struct RunningCommand {
    pub child: Child,
    stdout: File,
    stderr: File,
}

impl RunningCommand {
    /// Starts a command in its own process group. Its output goes to files, so a process that
    /// outlives it cannot block the attack.
    pub fn start(command: &mut Command) -> Result<RunningCommand> {
        let (stdout, stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command
            .process_group(0)
            .stdout(stdout.try_clone()?)
            .stderr(stderr.try_clone()?);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", process::command_line(command)))?;
        Ok(RunningCommand {
            child,
            stdout,
            stderr,
        })
    }

    pub fn finish(mut self, limit: Duration) -> Result<CommandOutput> {
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break Some(status);
            }
            if Instant::now() >= deadline {
                break None;
            }
            std::thread::sleep(Duration::from_millis(3));
        };
        if status.is_none() {
            send_signal("KILL", &format!("-{}", self.child.id()));
            self.child.wait()?;
        }
        Ok(CommandOutput {
            code: status.and_then(|it| it.code()),
            stdout: read_output(&mut self.stdout)?,
            stderr: read_output(&mut self.stderr)?,
            timed_out: status.is_none(),
        })
    }
}

/// Sends a signal to a process, or to a group if the id begins with `-`.
pub fn send_signal(signal: &str, process_id: &str) {
    let mut kill = process::command("kill");
    kill.args([format!("-{signal}").as_str(), "--", process_id]);
    // A process that has already ended is not an error.
    let _ = kill.stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// A process and all its descendants, the process first.
pub fn process_tree(process_id: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parents: Vec<(u32, u32)> = numbers
        .filter_map(|id| Some((id, parent_of(id)?)))
        .collect();
    let mut family = vec![process_id];
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        let children = parents.iter().filter(|(_, it)| *it == parent);
        family.extend(children.map(|(child, _)| *child));
        next += 1;
    }
    family
}

/// The second field after the name, which may contain spaces and parentheses.
fn parent_of(process_id: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process_id}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

fn read_output(file: &mut File) -> Result<String> {
    use std::io::Seek as _;
    const MAX_BYTES: u64 = 64 << 20;
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn git_identity() -> [(&'static str, &'static str); 4] {
    [
        ("GIT_AUTHOR_NAME", "User"),
        ("GIT_AUTHOR_EMAIL", "user@localhost"),
        ("GIT_COMMITTER_NAME", "User"),
        ("GIT_COMMITTER_EMAIL", "user@localhost"),
    ]
}

pub fn to_strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
