//! A finished plan, saved so that each kill starts from the same state.

use anyhow::{Context, Result, bail};

use crate::attack::machine::{CommandOutput, Machine, Setup};
use crate::attack::options::AttackAccount;
use crate::attack::plans;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanTargets {
    Repository,
    Folder,
    TwoRepositories,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KilledCommand {
    Apply,
    Unapply,
}

/// One kind of apply.
#[derive(Debug, Clone, Copy)]
pub struct AttackScenario {
    pub destination: &'static str,
    pub targets: PlanTargets,
    pub operation: KilledCommand,
}

impl AttackScenario {
    pub fn all() -> Vec<AttackScenario> {
        use PlanTargets::{Folder, Repository, TwoRepositories};
        let pairs = [
            ("current", Repository),
            ("current", TwoRepositories),
            ("current", Folder),
            ("branch", Repository),
            ("branch", TwoRepositories),
            ("worktree", Repository),
            ("worktree", TwoRepositories),
            ("patch", Repository),
        ];
        let both = [KilledCommand::Apply, KilledCommand::Unapply];
        let each = |(destination, targets)| {
            both.map(|operation| AttackScenario {
                destination,
                targets,
                operation,
            })
        };
        pairs.into_iter().flat_map(each).collect()
    }

    pub fn name(&self) -> String {
        let targets = match self.targets {
            PlanTargets::Repository => "git",
            PlanTargets::Folder => "folder",
            PlanTargets::TwoRepositories => "two-git",
        };
        let operation = match self.operation {
            KilledCommand::Apply => "apply",
            KilledCommand::Unapply => "unapply",
        };
        format!("{}/{targets}/{operation}", self.destination)
    }

    /// In the full form, one of this many moments is tried. With one repository every destination
    /// tries all of them; with two, one destination tries all and the others a share.
    pub fn step(&self) -> usize {
        match (self.targets, self.destination) {
            (PlanTargets::TwoRepositories, "branch" | "worktree") => 3,
            _ => 1,
        }
    }

    fn folders(&self) -> &'static [&'static str] {
        match self.targets {
            PlanTargets::TwoRepositories => &["one", "two"],
            _ => &["one"],
        }
    }
}

/// The states of the targets, one text each.
pub type TargetStates = Vec<String>;

/// A machine with the finished plan and a copy of it.
#[derive(Debug)]
pub struct PreparedScenario {
    pub scenario: AttackScenario,
    pub machine: Machine,
    pub plan: String,
    /// The states of the targets before the command.
    pub before: TargetStates,
    /// The states of the targets after one run of the command.
    pub after: TargetStates,
    database: Option<super::database::AttackDatabase>,
}

impl PreparedScenario {
    pub fn new(
        setup: &Setup,
        account: AttackAccount,
        scenario: AttackScenario,
        database: Option<super::database::AttackDatabase>,
    ) -> Result<PreparedScenario> {
        let mut machine = Machine::new(setup, account)?;
        if let Some(database) = &database {
            machine
                .variables
                .push(("CLEVERAGENTS_DATABASE_URL".into(), database.url()));
        }
        for folder in scenario.folders() {
            create_target(&machine, folder, scenario.targets)?;
        }
        plans::create_project(&machine, "shop", scenario.folders())?;
        plans::define(&machine, "job", &steps(scenario.folders()), "")?;
        let plan = plans::create_executed_plan(&machine, "job", "shop")?;
        let mut prepared = PreparedScenario {
            scenario,
            machine,
            plan,
            before: TargetStates::new(),
            after: TargetStates::new(),
            database,
        };
        if scenario.operation == KilledCommand::Unapply {
            let applied = prepared.apply()?;
            if !applied.is_ok() {
                bail!("{}: cannot apply: {}", scenario.name(), applied.summary());
            }
        }
        prepared.save()?;
        prepared.before = prepared.states()?;
        let answer = prepared.run_command()?;
        if !answer.is_ok() {
            bail!("{}: {}", scenario.name(), answer.summary());
        }
        prepared.after = prepared.states()?;
        Ok(prepared)
    }

    /// The arguments of the command under attack.
    pub fn arguments(&self) -> Vec<String> {
        let plan = self.plan.as_str();
        let patch = self.machine.path("result.patch").display().to_string();
        let words: Vec<&str> = match (self.scenario.operation, self.scenario.destination) {
            (KilledCommand::Unapply, _) => vec!["plan", "unapply", plan, "--yes"],
            (_, "branch") => vec!["plan", "apply", plan, "--yes", "--to", "branch", "planned"],
            (_, "patch") => vec!["plan", "apply", plan, "--yes", "--to", "patch", &patch],
            (_, other) => vec!["plan", "apply", plan, "--yes", "--to", other],
        };
        words.into_iter().map(str::to_owned).collect()
    }

    /// Runs the command without an attack.
    pub fn run_command(&self) -> Result<CommandOutput> {
        let words = self.arguments();
        self.machine
            .agents(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn apply(&self) -> Result<CommandOutput> {
        let scenario = AttackScenario {
            operation: KilledCommand::Apply,
            ..self.scenario
        };
        let patch = self.machine.path("result.patch").display().to_string();
        let mut words = vec![
            "plan",
            "apply",
            &self.plan,
            "--yes",
            "--to",
            scenario.destination,
        ];
        match scenario.destination {
            "branch" => words.push("planned"),
            "patch" => words.push(&patch),
            _ => {}
        }
        self.machine.agents(&words)
    }

    fn save(&self) -> Result<()> {
        self.machine.must_shell(
            "rm -rf saved; mkdir saved; for it in home one two result.patch; do [ ! -e $it ] || cp -a $it saved/; done",
        )?;
        self.database
            .as_ref()
            .map_or(Ok(()), super::database::AttackDatabase::save)
    }

    /// Restores the state before the command.
    pub fn restore(&self) -> Result<()> {
        self.machine
            .must_shell("rm -rf home one two result.patch; cp -a saved/. .")?;
        self.database
            .as_ref()
            .map_or(Ok(()), super::database::AttackDatabase::restore)
    }

    /// The states of all targets: files, index, branches and their history, without commit ids.
    pub fn states(&self) -> Result<TargetStates> {
        let folders = self.scenario.folders().iter();
        let mut states: TargetStates = folders
            .map(|it| target_state(&self.machine, it))
            .collect::<Result<_>>()?;
        if self.scenario.destination == "patch" {
            states.push(self.machine.read("result.patch"));
        }
        Ok(states)
    }

    /// The problems that `git fsck` reports for each repository.
    pub fn damage(&self) -> Result<Option<String>> {
        if self.scenario.targets == PlanTargets::Folder {
            return Ok(None);
        }
        for folder in self.scenario.folders() {
            let checked = self
                .machine
                .git(folder, &["fsck", "--no-dangling", "--no-progress"])?;
            if !checked.is_ok() {
                return Ok(Some(format!("{folder}: {}", checked.summary())));
            }
        }
        Ok(None)
    }

    pub fn database_name(&self) -> &'static str {
        match self.database {
            Some(_) => "postgresql",
            None => "sqlite",
        }
    }
}

fn target_state(machine: &Machine, folder: &str) -> Result<String> {
    let script = r#"cd "$0" || exit 1
find . -name .git -prune -o -type f -print0 -o -type l -print0 | LC_ALL=C sort -z | xargs -0 -r sha1sum
[ -d .git ] || exit 0
find .git -name '*.lock'
git status --porcelain --untracked-files=all
git for-each-ref refs/heads --format='%(refname) %(tree) %(contents:subject)'
git for-each-ref refs/heads --format='%(objectname)' | xargs -r -n 1 git rev-list --count"#;
    let mut command = machine.command(&["sh", "-c", script, folder]);
    let answer = machine.run_command(&mut command, crate::attack::machine::LIMIT)?;
    answer
        .is_ok()
        .then_some(answer.stdout)
        .with_context(|| format!("the state of {folder}"))
}

/// A target with the user's own work, which no apply may touch.
fn create_target(machine: &Machine, folder: &str, targets: PlanTargets) -> Result<()> {
    let files = format!(
        "mkdir {folder} && cd {folder} && mkdir dir && printf '1\\n2\\n3\\n4\\n5\\n6\\n' > a && echo b > dir/b \
         && echo c > c && echo o > other && echo s > staged"
    );
    machine.must_shell(&files)?;
    if targets != PlanTargets::Folder {
        let script = format!(
            "cd {folder} && git init -q --template= -b main && git add -A && git commit -qm first \
             && echo edited >> other && echo more >> staged && git add staged && echo mine > mine"
        );
        machine.must_shell(&script)?;
    }
    Ok(())
}

fn steps(folders: &[&str]) -> String {
    let each = folders.iter().map(|folder| {
        format!(
            "- {{tool: builtin/file-edit, resource: local/{folder}, input: {{path: a, old: \"3\\n\", new: \"three\\n\"}}}}\n\
             - {{tool: builtin/file-write, resource: local/{folder}, input: {{path: new/file, content: \"new\\n\"}}}}\n\
             - {{tool: builtin/file-delete, resource: local/{folder}, input: {{path: c}}}}\n"
        )
    });
    each.collect()
}
