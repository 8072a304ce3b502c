//! The results of the attempts: the table at the end, and a line for each successful attack.

use crate::table;

use super::options::AttackFamily;

/// The ways in which a guarantee of the program can be violated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenPromise {
    /// Something left the sandbox, or a repository affected the program.
    Escaped,
    /// Work of the plan or of the user is lost.
    Lost,
    /// Some of a plan's changes are applied and some are not.
    Partial,
    /// No command makes progress, a command hangs, or a warning never ends.
    Stuck,
}

impl BrokenPromise {
    const ALL: [BrokenPromise; 4] = [
        BrokenPromise::Escaped,
        BrokenPromise::Lost,
        BrokenPromise::Partial,
        BrokenPromise::Stuck,
    ];

    pub fn name(self) -> &'static str {
        match self {
            BrokenPromise::Escaped => "through",
            BrokenPromise::Lost => "lost",
            BrokenPromise::Partial => "partial",
            BrokenPromise::Stuck => "stuck",
        }
    }
}

/// The result of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttackVerdict {
    Held,
    /// The attempt proves nothing here, for this reason: its control failed, or the documentation
    /// makes no guarantee about it at this level.
    NotCounted(String),
    Broken(BrokenPromise, String),
}

/// One attempt with its verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttackOutcome {
    pub family: AttackFamily,
    /// Account and level, or the database.
    pub setting: String,
    pub name: String,
    pub verdict: AttackVerdict,
    /// Arguments of `cargo xtask attack` that repeat only this attempt.
    pub repeat: String,
}

/// All outcomes of a run.
#[derive(Debug, Default)]
pub struct Tally {
    outcomes: Vec<AttackOutcome>,
}

impl Tally {
    pub fn add(&mut self, outcomes: Vec<AttackOutcome>) {
        self.outcomes.extend(outcomes);
    }

    /// Returns whether no attack succeeded and every family had a counted attempt.
    pub fn is_clean(&self) -> bool {
        self.broken_outcomes().count() == 0 && self.idle_families().is_empty()
    }

    /// The families without a counted attempt: nothing is known about them.
    pub fn idle_families(&self) -> Vec<&'static str> {
        let mut families: Vec<AttackFamily> = Vec::new();
        for outcome in &self.outcomes {
            if !families.contains(&outcome.family) {
                families.push(outcome.family);
            }
        }
        families.retain(|family| self.count_distinct(*family) == 0);
        families.into_iter().map(AttackFamily::name).collect()
    }

    fn broken_outcomes(&self) -> impl Iterator<Item = (&AttackOutcome, BrokenPromise, &str)> {
        self.outcomes.iter().filter_map(|it| match &it.verdict {
            AttackVerdict::Broken(fault, detail) => Some((it, *fault, detail.as_str())),
            _ => None,
        })
    }

    /// One row per family and setting, in the order of their first attempts.
    pub fn table(&self) -> String {
        let mut keys: Vec<(AttackFamily, &str)> = Vec::new();
        for outcome in &self.outcomes {
            let key = (outcome.family, outcome.setting.as_str());
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let rows: Vec<Vec<String>> = keys
            .into_iter()
            .map(|(family, setting)| self.row(family, setting))
            .collect();
        let heads = ["family", "setting", "attempts", "not counted"];
        let heads = [&heads[..], &BrokenPromise::ALL.map(BrokenPromise::name)].concat();
        table::render(&heads, &rows)
    }

    fn row(&self, family: AttackFamily, setting: &str) -> Vec<String> {
        let mine = |it: &&AttackOutcome| it.family == family && it.setting == setting;
        let count = |wanted: &dyn Fn(&AttackVerdict) -> bool| {
            let all = self.outcomes.iter().filter(mine);
            all.filter(|it| wanted(&it.verdict)).count().to_string()
        };
        let mut row = vec![
            family.name().to_owned(),
            setting.to_owned(),
            count(&|verdict| !matches!(verdict, AttackVerdict::NotCounted(_))),
            count(&|verdict| matches!(verdict, AttackVerdict::NotCounted(_))),
        ];
        for fault in BrokenPromise::ALL {
            row.push(count(
                &|verdict| matches!(verdict, AttackVerdict::Broken(it, _) if *it == fault),
            ));
        }
        row
    }

    /// The number of distinct attempts that counted in some setting.
    pub fn count_distinct(&self, family: AttackFamily) -> usize {
        let counted = self.outcomes.iter().filter(|it| {
            it.family == family && !matches!(it.verdict, AttackVerdict::NotCounted(_))
        });
        let names: std::collections::BTreeSet<&str> = counted.map(|it| it.name.as_str()).collect();
        names.len()
    }

    /// The successful attacks, each with the command line that repeats it.
    pub fn findings(&self) -> Vec<String> {
        let found = self.broken_outcomes().map(|(it, fault, detail)| {
            format!(
                "{} [{} {}] {}: {}\n    repeat: cargo xtask attack {}",
                fault.name(),
                it.family.name(),
                it.setting,
                it.name,
                shorten(detail),
                it.repeat,
            )
        });
        found.collect()
    }

    /// The attempts that did not count, by reason, with the number of each.
    pub fn not_counted(&self) -> Vec<String> {
        let mut reasons: std::collections::BTreeMap<(&str, &str), Vec<&str>> = Default::default();
        for it in &self.outcomes {
            if let AttackVerdict::NotCounted(reason) = &it.verdict {
                let key = (it.setting.as_str(), reason.as_str());
                reasons.entry(key).or_default().push(&it.name);
            }
        }
        let lines = reasons
            .into_iter()
            .map(|((setting, reason), names)| format!("{setting}: {reason}: {}", names.join(", ")));
        lines.collect()
    }
}

/// The start of a text, on one line.
pub fn shorten(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(400) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(setting: &str, name: &str, verdict: AttackVerdict) -> AttackOutcome {
        AttackOutcome {
            family: AttackFamily::Escapes,
            setting: setting.into(),
            name: name.into(),
            verdict,
            repeat: format!("escapes --only {name}"),
        }
    }

    fn sample() -> Tally {
        let mut tally = Tally::default();
        let through = AttackVerdict::Broken(BrokenPromise::Escaped, "saw\n  it".into());
        tally.add(vec![
            outcome("root landlock", "mount", AttackVerdict::Held),
            outcome("root landlock", "ptrace", through),
            outcome(
                "user landlock",
                "mount",
                AttackVerdict::NotCounted("no".into()),
            ),
        ]);
        tally
    }

    #[test]
    fn the_table_counts_by_family_and_setting() {
        let expected = "\
family   setting        attempts  not counted  through  lost  partial  stuck
-------  -------------  --------  -----------  -------  ----  -------  -----
escapes  root landlock  2         0            1        0     0        0
escapes  user landlock  0         1            0        0     0        0";
        assert_eq!(sample().table(), expected);
        assert_eq!(sample().count_distinct(AttackFamily::Escapes), 2);
        assert!(!sample().is_clean());
    }

    #[test]
    fn a_finding_says_how_to_repeat_it() {
        let expected = "through [escapes root landlock] ptrace: saw it\n    \
                        repeat: cargo xtask attack escapes --only ptrace";
        assert_eq!(sample().findings(), [expected]);
        assert_eq!(sample().not_counted(), ["user landlock: no: mount"]);
    }

    #[test]
    fn attempts_that_held_are_clean() {
        let mut tally = Tally::default();
        tally.add(vec![outcome("x", "y", AttackVerdict::Held)]);
        assert!(tally.is_clean());
    }
}
