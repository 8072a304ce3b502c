//! The form of one attempt to get out of a sandbox.

/// The language of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Shell,
    Python,
}

/// What the host does while the script runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    Nothing,
    /// Replaces the credential files of the home by rename, again and again.
    ReplaceCredentials,
}

/// Where the script runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Pipe,
    /// The program under attack has a terminal.
    Terminal,
}

/// A script with a name. It got through if it prints `THROUGH` or the secret (forwards or backwards), if
/// anything outside has changed afterwards, or if a process of it is still alive.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    pub name: &'static str,
    pub language: Language,
    pub script: &'static str,
    pub beside: Beside,
    pub place: Place,
    /// Must not share its run of the program with other attempts.
    pub alone: bool,
    /// The documentation promises nothing about it at the level `landlock`.
    pub beyond_landlock: bool,
}

/// A shell script.
pub const fn sh(name: &'static str, script: &'static str) -> Attempt {
    Attempt {
        name,
        language: Language::Shell,
        script,
        beside: Beside::Nothing,
        place: Place::Pipe,
        alone: false,
        beyond_landlock: false,
    }
}

/// A Python script behind `prelude.py`.
pub const fn py(name: &'static str, script: &'static str) -> Attempt {
    let mut attempt = sh(name, script);
    attempt.language = Language::Python;
    attempt
}

impl Attempt {
    pub const fn alone(mut self) -> Attempt {
        self.alone = true;
        self
    }

    pub const fn beside(mut self, beside: Beside) -> Attempt {
        self.beside = beside;
        self.alone = true;
        self
    }

    pub const fn on_terminal(mut self) -> Attempt {
        self.place = Place::Terminal;
        self.alone = true;
        self
    }

    pub const fn beyond_landlock(mut self) -> Attempt {
        self.beyond_landlock = true;
        self
    }
}

/// An attempt ready to run, also one that was made from a list of paths.
#[derive(Debug, Clone)]
pub struct Case {
    pub name: String,
    pub language: Language,
    pub script: String,
    pub beside: Beside,
    pub place: Place,
    pub alone: bool,
    pub beyond_landlock: bool,
}

impl From<&Attempt> for Case {
    fn from(attempt: &Attempt) -> Case {
        Case {
            name: attempt.name.to_owned(),
            language: attempt.language,
            script: attempt.script.to_owned(),
            beside: attempt.beside,
            place: attempt.place,
            alone: attempt.alone,
            beyond_landlock: attempt.beyond_landlock,
        }
    }
}

impl Case {
    pub fn shell(name: String, script: String) -> Case {
        Case {
            name,
            script,
            ..Case::from(&sh("", ""))
        }
    }
}
