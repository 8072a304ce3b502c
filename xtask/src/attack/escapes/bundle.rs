//! Combines several attempts into one script, and splits its output again.

use super::attempt::{AttackCase, ScriptLanguage};

const PRELUDE: &str = include_str!("prelude.py");

/// Precedes the output of each attempt.
const HEADING: &str = "@@ attempt ";

/// The timeout of one attempt, in seconds.
const SECONDS: u32 = 12;

/// The maximum output of one attempt, in bytes.
const BYTES: u32 = 700;

/// A script that makes the attempts one after the other, each in its own folder.
pub fn script(variables: &str, cases: &[&AttackCase]) -> String {
    let mut text = format!(
        "{variables}\nexport TREE=$PWD\nT=${{TMPDIR:-/tmp}}\n\
         cat > $T/prelude.py <<'END_OF_PRELUDE'\n{PRELUDE}\nEND_OF_PRELUDE\n"
    );
    for (index, case) in cases.iter().enumerate() {
        text += &wrap_case(index, case);
    }
    text
}

fn wrap_case(index: usize, case: &AttackCase) -> String {
    let (before, run) = match case.language {
        ScriptLanguage::Shell => (String::new(), "sh"),
        ScriptLanguage::Python => (
            format!("cat $T/prelude.py > $T/{index}\n"),
            "/usr/bin/python3 -u",
        ),
    };
    format!(
        "{before}cat >> $T/{index} <<'END_OF_ATTEMPT'\n{script}\nEND_OF_ATTEMPT\n\
         rm -rf $TREE/try-{index}; mkdir -p $TREE/try-{index}; cd $TREE/try-{index}\n\
         echo; echo '{HEADING}{index}'\n\
         timeout -k 1 {SECONDS} {run} $T/{index} > $T/output 2>&1 < /dev/null\n\
         head -c {BYTES} $T/output | tr -d '\\000'; rm -f $T/{index}\n",
        script = case.script,
    )
}

/// The output of each of `count` attempts; empty for those that did not run.
pub fn sections(output: &str, count: usize) -> Vec<String> {
    let mut sections = vec![String::new(); count];
    let mut current = None;
    for line in output.lines() {
        if let Some(number) = line.strip_prefix(HEADING) {
            current = number.trim().parse::<usize>().ok().filter(|it| *it < count);
        } else if let Some(index) = current {
            sections[index] += line;
            sections[index].push('\n');
        }
    }
    sections
}

/// Returns whether every attempt began.
pub fn is_complete(output: &str, count: usize) -> bool {
    (0..count).all(|index| {
        output
            .lines()
            .any(|line| line == format!("{HEADING}{index}"))
    })
}

/// Returns whether an output shows that the attempt succeeded.
pub fn reveals_escape(output: &str, secret: &str) -> bool {
    let backwards: String = secret.chars().rev().collect();
    output.contains("THROUGH") || output.contains(secret) || output.contains(&backwards)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::escapes::attempt::{AttackCase, py, sh};

    #[test]
    fn each_attempt_gets_its_own_output() {
        let output = "noise\n\n@@ attempt 0\none\ntwo\n\n@@ attempt 2\nthree\n";
        assert_eq!(sections(output, 3), ["one\ntwo\n\n", "", "three\n"]);
        assert!(!is_complete(output, 3));
        assert!(is_complete("@@ attempt 0\n@@ attempt 1\n", 2));
    }

    #[test]
    fn a_secret_shows_in_both_directions() {
        assert!(reveals_escape("x abcdef y", "abcdef"));
        assert!(reveals_escape("x fedcba y", "abcdef"));
        assert!(reveals_escape("THROUGH /dev/x", "abcdef"));
        assert!(!reveals_escape("through nothing abc", "abcdef"));
    }

    #[test]
    fn scripts_run_in_their_language() {
        let (shell, python) = (
            AttackCase::from(&sh("a", "echo a")),
            AttackCase::from(&py("b", "through()")),
        );
        let text = script("export OUT='/x'", &[&shell, &python]);
        assert!(text.contains("sh $T/0"));
        assert!(text.contains("/usr/bin/python3 -u $T/1"));
        assert_eq!(text.matches("\nEND_OF_ATTEMPT\n").count(), 2);
    }
}
