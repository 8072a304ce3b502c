//! The definition of one attempt to escape from a sandbox.

/// The language of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptLanguage {
    Shell,
    Python,
}

/// The activity of the host while the script runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostActivity {
    Nothing,
    /// Repeatedly replaces the credential files of the home by rename.
    ReplaceCredentials,
}

/// The standard streams of the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdioKind {
    Pipe,
    /// The program under attack has a terminal.
    Terminal,
}

/// A named script. It succeeded if it prints `THROUGH` or the secret (forwards or backwards), if
/// anything outside has changed afterwards, or if one of its processes is still alive.
#[derive(Debug, Clone, Copy)]
pub struct AttackAttempt {
    pub name: &'static str,
    pub language: ScriptLanguage,
    pub script: &'static str,
    pub host_activity: HostActivity,
    pub stdio: StdioKind,
    /// Must not share its run of the program with other attempts.
    pub alone: bool,
    /// The documentation makes no guarantee about it at the level `landlock`.
    pub beyond_landlock: bool,
}

/// A shell script.
pub const fn sh(name: &'static str, script: &'static str) -> AttackAttempt {
    AttackAttempt {
        name,
        language: ScriptLanguage::Shell,
        script,
        host_activity: HostActivity::Nothing,
        stdio: StdioKind::Pipe,
        alone: false,
        beyond_landlock: false,
    }
}

/// A Python script, appended to `prelude.py`.
pub const fn py(name: &'static str, script: &'static str) -> AttackAttempt {
    let mut attempt = sh(name, script);
    attempt.language = ScriptLanguage::Python;
    attempt
}

impl AttackAttempt {
    pub const fn alone(mut self) -> AttackAttempt {
        self.alone = true;
        self
    }

    pub const fn with_host_activity(mut self, beside: HostActivity) -> AttackAttempt {
        self.host_activity = beside;
        self.alone = true;
        self
    }

    pub const fn on_terminal(mut self) -> AttackAttempt {
        self.stdio = StdioKind::Terminal;
        self.alone = true;
        self
    }

    pub const fn beyond_landlock(mut self) -> AttackAttempt {
        self.beyond_landlock = true;
        self
    }
}

/// An attempt ready to run, including those generated from a list of paths.
#[derive(Debug, Clone)]
pub struct AttackCase {
    pub name: String,
    pub language: ScriptLanguage,
    pub script: String,
    pub host_activity: HostActivity,
    pub stdio: StdioKind,
    pub alone: bool,
    pub beyond_landlock: bool,
}

impl From<&AttackAttempt> for AttackCase {
    fn from(attempt: &AttackAttempt) -> AttackCase {
        AttackCase {
            name: attempt.name.to_owned(),
            language: attempt.language,
            script: attempt.script.to_owned(),
            host_activity: attempt.host_activity,
            stdio: attempt.stdio,
            alone: attempt.alone,
            beyond_landlock: attempt.beyond_landlock,
        }
    }
}

impl AttackCase {
    pub fn shell(name: String, script: String) -> AttackCase {
        AttackCase {
            name,
            script,
            ..AttackCase::from(&sh("", ""))
        }
    }
}
