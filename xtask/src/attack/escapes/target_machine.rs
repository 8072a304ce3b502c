//! The machine that sandboxes must not reach: a home full of credentials, repositories, another
//! sandbox, and a process of the user with sockets.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::attempt::StdioKind;
use super::bundle;
use super::content::{RESET, create_content, search_path, set_home};
use crate::attack::machine::{CommandOutput, Machine, Setup, send_signal, to_strings};
use crate::attack::options::{AttackAccount, ConfinementLevel};
use crate::environment;

const HOST: &str = include_str!("host.py");
const LAUNCHER: &str = include_str!("launcher.py");

/// Runs its arguments on a new terminal and passes their output on.
const TERMINAL: &str = "import pty, sys; pty.spawn(sys.argv[1:])";

/// The location of the machine's home, and the `HOME` that the program gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HomeKind {
    Usual,
    /// The whole machine is below `/tmp`.
    Temporary,
    /// `HOME` is not set; the home is that of the account.
    Unset,
    /// `HOME` is an empty folder; the account has another home.
    Another,
}

impl HomeKind {
    pub fn name(self) -> &'static str {
        match self {
            HomeKind::Usual => "home",
            HomeKind::Temporary => "home-below-tmp",
            HomeKind::Unset => "home-unset",
            HomeKind::Another => "home-unlike-account",
        }
    }
}

/// A machine with all its content. Its process ends with it.
#[derive(Debug)]
pub struct TargetMachine {
    pub machine: Machine,
    pub secret: String,
    /// The secret in variables and settings, which the program may mask where it prints them.
    key: String,
    /// Shell assignments for every script.
    pub variables: String,
    name: String,
    other: PathBuf,
    host: Child,
}

impl Drop for TargetMachine {
    fn drop(&mut self) {
        send_signal("KILL", &format!("-{}", self.host.id()));
        let _ = self.host.wait();
        for path in self.shared_paths("-secret") {
            let _ = fs::remove_file(path);
        }
    }
}

impl TargetMachine {
    pub fn new(setup: &Setup, account: AttackAccount, home: HomeKind) -> Result<TargetMachine> {
        let parent = match home {
            HomeKind::Temporary => Path::new("/tmp"),
            _ => setup.base.as_path(),
        };
        let mut machine = Machine::below(setup, account, parent)?;
        let secret = random_letters(24)?;
        let name = format!("attack-{}", random_letters(10)?);
        let key = random_letters(24)?;
        machine
            .variables
            .push(("HOST_SECRET".into(), secret.clone()));
        machine.variables.push(("HOST_KEY".into(), key.clone()));
        let out = machine.path("outside").display().to_string();
        machine.variables.push(("OUT".into(), out));
        create_content(&machine, &name)?;
        set_home(&mut machine, home)?;
        let (host, message) = start_host(&machine)?;
        machine.write("logs/launcher.py", LAUNCHER.as_bytes())?;
        let launcher = machine.path("logs/launcher.py").display().to_string();
        machine.launcher = to_strings(&["/usr/bin/python3", &launcher]);
        let settings = machine.path("settings/config.toml").display().to_string();
        let more = [
            ("CLEVERAGENTS_CONFIG_PATH", settings),
            ("PATH", search_path(&machine)),
        ];
        machine
            .variables
            .extend(more.map(|(name, value)| (name.to_owned(), value)));
        let mut world = TargetMachine {
            machine,
            secret,
            key,
            variables: message,
            name,
            other: PathBuf::new(),
            host,
        };
        world.create_other_sandbox()?;
        world.variables += &world.path_variables();
        Ok(world)
    }

    fn create_other_sandbox(&mut self) -> Result<()> {
        let input = json!({"path": "theirs", "content": self.secret}).to_string();
        let repository = self.machine.path("shop").display().to_string();
        let words = ["tool", "run", "file-write", "--keep", "--input", &input];
        let words = [&words[..], &["--path", &repository]].concat();
        self.machine.must_agents(&["init"])?;
        self.machine.must_agents(&words)?;
        let made = self.machine.must_agents(&words)?;
        let data = made.data();
        let kept = data["sandbox"]["kept"]
            .as_str()
            .context("no kept sandbox is named")?;
        let kept = PathBuf::from(kept);
        self.other = if kept.join("tree").is_dir() {
            kept.join("tree")
        } else {
            kept
        };
        Ok(())
    }

    fn path_variables(&self) -> String {
        let machine = &self.machine;
        let named = [
            ("OUT", machine.path("outside")),
            ("H", machine.path("home")),
            ("ROOT", machine.root().to_owned()),
            ("REPO", machine.path("shop")),
            ("DATA", machine.path("home/.cleveragents")),
            ("OTHER", self.other.clone()),
            ("NAME", PathBuf::from(&self.name)),
        ];
        let lines = named.map(|(name, value)| format!("export {name}='{}'\n", value.display()));
        // Below `/tmp` a sandbox has a folder of the same path in its own memory.
        let inode = fs::metadata(machine.path("home/.cleveragents")).map_or(0, |it| it.ino());
        lines.concat() + &format!("export DATA_INODE='{inode}'\n")
    }

    /// Runs a script with the shell tool in a sandbox of the repository.
    pub fn run_in_sandbox(
        &self,
        level: ConfinementLevel,
        script: &str,
        seconds: u32,
    ) -> Result<CommandOutput> {
        let input = json!({"command": script, "timeout": seconds}).to_string();
        self.run_tool(
            level,
            "shell",
            &input,
            Duration::from_secs(u64::from(seconds) + 30),
        )
    }

    /// Like [`Self::run_in_sandbox`], on its own terminal.
    pub fn run_on_terminal(
        &self,
        level: ConfinementLevel,
        script: &str,
        seconds: u32,
    ) -> Result<CommandOutput> {
        let input = json!({"command": script, "timeout": seconds}).to_string();
        let command = self.tool_command(level, "shell", &input)?;
        let mut on_terminal = self.machine.command(&["/usr/bin/python3", "-c", TERMINAL]);
        on_terminal
            .arg(command.get_program())
            .args(command.get_args());
        on_terminal.current_dir(self.machine.path("home"));
        let limit = Duration::from_secs(u64::from(seconds) + 30);
        self.machine.run_command(&mut on_terminal, limit)
    }

    pub fn run_tool(
        &self,
        level: ConfinementLevel,
        tool: &str,
        input: &str,
        limit: Duration,
    ) -> Result<CommandOutput> {
        let mut command = self.tool_command(level, tool, input)?;
        self.machine.run_command(&mut command, limit)
    }

    /// The command line that runs a tool in a sandbox of the repository.
    pub fn tool_command(
        &self,
        level: ConfinementLevel,
        tool: &str,
        input: &str,
    ) -> Result<Command> {
        self.machine.write("logs/input.json", input.as_bytes())?;
        let input = format!("@{}", self.machine.path("logs/input.json").display());
        let repository = self.machine.path("shop").display().to_string();
        let confinement = format!("sandbox.confinement={}", level.name());
        let words = [
            "tool",
            "run",
            tool,
            "--input",
            &input,
            "--path",
            &repository,
        ];
        let more = ["--set", &confinement, "--format", "json"];
        Ok(self.machine.agents_command(&[&words[..], &more].concat()))
    }

    /// Runs a script outside, with the same careless parent.
    pub fn run_on_host(&self, script: &str, place: StdioKind) -> Result<CommandOutput> {
        let private = "unshare -m --propagation private --".split(' ');
        let mut words: Vec<&str> = if self.machine.account() == AttackAccount::Root {
            private.collect()
        } else {
            Vec::new()
        };
        if place == StdioKind::Terminal {
            words.extend(["/usr/bin/python3", "-c", TERMINAL]);
        }
        let launcher = self.machine.path("logs/launcher.py").display().to_string();
        let words = [
            &words[..],
            &["/usr/bin/python3", &launcher, "sh", "-c", script],
        ]
        .concat();
        let mut command = self.machine.command(&words);
        let scratch = self.machine.path("control");
        command
            .current_dir(scratch.join("tree"))
            .env("TMPDIR", scratch.join("scratch"))
            .env("CONTROL", "1");
        self.machine
            .run_command(&mut command, Duration::from_secs(120))
    }

    /// Everything outside the sandbox that attempts may target, by path.
    pub fn snapshot(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        for folder in ["outside", "shop", "home", "plain", "settings"] {
            list_files(&self.machine.path(folder), &mut found);
        }
        list_files(&self.other, &mut found);
        for path in self.shared_paths("") {
            list_files(&path, &mut found);
        }
        found
    }

    fn shared_paths(&self, suffix: &str) -> [PathBuf; 3] {
        ["/tmp", "/var/tmp", "/dev/shm"]
            .map(|it| Path::new(it).join(format!("{}{suffix}", self.name)))
    }

    /// Undoes the changes of attempts and controls.
    pub fn reset(&self) -> Result<()> {
        send_signal("CONT", &self.host.id().to_string());
        for path in self.shared_paths("") {
            let _ = fs::remove_file(path);
        }
        let other = self.other.display();
        let script = format!("rm -f {other}/planted; {RESET}");
        self.machine.must_shell(&script)?;
        Ok(())
    }

    /// The first outside process whose command line has the mark.
    pub fn survivor(&self, mark: &str) -> Option<String> {
        self.survivors(mark).into_iter().next()
    }

    /// Every outside process whose command line has the mark.
    fn survivors(&self, mark: &str) -> Vec<String> {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        processes
            .filter(|it| {
                it.file_name()
                    .to_string_lossy()
                    .bytes()
                    .all(|it| it.is_ascii_digit())
            })
            .filter(|it| {
                let line = fs::read(it.path().join("cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&line).contains(mark)
            })
            .map(|it| it.file_name().to_string_lossy().into_owned())
            .collect()
    }

    /// Kills every process with the mark and returns the first one's id.
    pub fn end_survivors(&self, mark: &str) -> Option<String> {
        let first = self.survivor(mark)?;
        for _ in 0..20 {
            let found = self.survivors(mark);
            if found.is_empty() {
                break;
            }
            for process_id in found {
                send_signal("KILL", &process_id);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(first)
    }

    pub fn reveals_escape(&self, output: &str) -> bool {
        bundle::reveals_escape(output, &self.secret) || bundle::reveals_escape(output, &self.key)
    }
}

fn start_host(machine: &Machine) -> Result<(Child, String)> {
    use std::os::unix::process::CommandExt as _;
    machine.write("logs/host.py", HOST.as_bytes())?;
    let script = machine.path("logs/host.py").display().to_string();
    let mut command = machine.command(&["/usr/bin/python3", &script]);
    let mut child = command.process_group(0).stdout(Stdio::piped()).spawn()?;
    let stdout = child
        .stdout
        .take()
        .context("no output of the host process")?;
    let mut message = String::new();
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        if line == "ready" {
            return Ok((child, message + "\n"));
        }
        message += &format!("{line}\n");
    }
    bail!("the host process did not start")
}

/// Excluded from snapshots because it changes by itself or belongs to the program.
fn is_volatile(path: &Path) -> bool {
    let text = path.to_string_lossy();
    [
        "/home/.cleveragents",
        "/.git/refs/cleveragents",
        "/.git/index",
        "/sockets/later",
        "/.git/logs",
    ]
    .iter()
    .any(|part| text.ends_with(part))
}

fn list_files(path: &Path, found: &mut BTreeMap<PathBuf, String>) {
    let Ok(metadata) = path.symlink_metadata() else {
        return;
    };
    if is_volatile(path) {
        return;
    }
    let mode = format!("{:o} {} ", metadata.mode(), metadata.uid());
    let content = if metadata.is_file() {
        fs::read(path).map_or_else(
            |it| it.to_string(),
            |it| String::from_utf8_lossy(&it).into_owned(),
        )
    } else if metadata.is_symlink() {
        fs::read_link(path).map_or_else(|it| it.to_string(), |it| it.display().to_string())
    } else {
        String::new()
    };
    found.insert(path.to_owned(), mode + &content);
    if metadata.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            list_files(&entry.path(), found);
        }
    }
}

pub fn random_letters(count: usize) -> Result<String> {
    let mut bytes = vec![0_u8; count];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|it| char::from(b'a' + it % 26)).collect())
}

/// Returns whether the suite can give a process another list of accounts.
pub fn can_change_accounts() -> bool {
    environment::is_root()
}
