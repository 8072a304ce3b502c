use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Files by path; `None` is an unreadable file.
#[derive(Debug, Default)]
struct InMemoryResourceFiles(BTreeMap<String, Option<Vec<u8>>>);

impl InMemoryResourceFiles {
    fn with(mut self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.0
            .insert(path.to_owned(), Some(content.as_ref().to_vec()));
        self
    }

    fn with_unreadable(mut self, path: &str) -> Self {
        self.0.insert(path.to_owned(), None);
        self
    }

    fn with_skill(self, folder: &str, front: &str) -> Self {
        self.with(
            &format!("{folder}/SKILL.md"),
            format!("---\n{front}\n---\nBody\n"),
        )
    }
}

fn unreadable_error(path: &ResourcePath) -> UnreadablePath {
    UnreadablePath {
        path: path.clone(),
        reason: "it is locked".to_owned(),
    }
}

impl ResourceFiles for InMemoryResourceFiles {
    fn read(&self, path: &ResourcePath, most: usize) -> Result<Option<Vec<u8>>, UnreadablePath> {
        match self.0.get(&path.to_string()) {
            None => Ok(None),
            Some(None) => Err(unreadable_error(path)),
            Some(Some(bytes)) => Ok(Some(bytes[..bytes.len().min(most)].to_vec())),
        }
    }

    fn entries(&self, folder: &ResourcePath) -> Result<Vec<ResourcePath>, UnreadablePath> {
        if let Some(None) = self.0.get(&folder.to_string()) {
            return Err(unreadable_error(folder));
        }
        let begin = format!("{folder}/");
        let names = self.0.keys().filter_map(|path| path.strip_prefix(&begin));
        let names = names.map(|rest| rest.split('/').next().unwrap_or(rest));
        let paths = names.map(|name| format!("{begin}{name}").parse().unwrap());
        let mut paths: Vec<ResourcePath> = paths.collect();
        paths.dedup();
        // Callers must not rely on the order.
        paths.reverse();
        Ok(paths)
    }
}

fn paths(texts: &[&str]) -> Vec<ResourcePath> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn paths_and_texts(instructions: &Instructions) -> Vec<(String, &str)> {
    let texts = instructions.texts.iter();
    texts
        .map(|it| (it.path.to_string(), it.text.as_str()))
        .collect()
}

#[test]
fn the_root_comes_first_and_the_nearest_last() {
    let files = InMemoryResourceFiles::default()
        .with("AGENTS.md", "root\n")
        .with("a/AGENTS.md", "a\n")
        .with("a/b/c/AGENTS.md", "c\n")
        .with("d/AGENTS.md", "d\n")
        .with("e/AGENTS.md", "nobody works here\n");
    let about = paths(&["a/b/c/x.rs", "a/b/y.rs", "a/b/c/z.rs", "d", "top.rs"]);
    let found = find_instructions(&files, &about);
    assert_eq!(
        paths_and_texts(&found),
        [
            ("AGENTS.md".to_owned(), "root\n"),
            ("a/AGENTS.md".to_owned(), "a\n"),
            ("d/AGENTS.md".to_owned(), "d\n"),
            ("a/b/c/AGENTS.md".to_owned(), "c\n"),
        ]
    );
    assert!(found.warnings.is_empty());
    assert_eq!(found.texts[0].hash, blake3::hash(b"root\n").to_string());
    assert_eq!(find_instructions(&files, &[]).texts.len(), 1);
    let none = find_instructions(&InMemoryResourceFiles::default(), &about);
    assert_eq!(none, Instructions::default());
}

#[test]
fn excess_text_is_cut_at_a_line_furthest_first() {
    let line = "é".repeat(50) + "\n";
    let files = InMemoryResourceFiles::default()
        .with("AGENTS.md", line.repeat(1000))
        .with("a/AGENTS.md", "x".repeat(TOTAL_MAXIMUM - 1000))
        .with("a/b/AGENTS.md", "near\n");
    let found = find_instructions(&files, &paths(&["a/x", "a/b/x"]));
    assert_eq!(found.texts[2].text, "near\n");
    assert_eq!(found.texts[1].text.len(), TOTAL_MAXIMUM - 1000);
    let root = &found.texts[0].text;
    assert!(root.starts_with(&line) && root.len() <= 995, "{root}");
    let kept = root.strip_suffix("\n[The rest of this file is left out.]\n");
    assert!(kept.unwrap().lines().all(|it| it == line.trim_end()));
    assert_eq!(
        found.texts[0].hash,
        blake3::hash(root.as_bytes()).to_string()
    );
    assert_eq!(
        found.warnings,
        ["AGENTS.md is cut: instructions may have 32768 bytes in all"]
    );
    let files = files.with("a/b/AGENTS.md", "y".repeat(TOTAL_MAXIMUM));
    let found = find_instructions(&files, &paths(&["a/x", "a/b/x"]));
    assert_eq!(found.texts.len(), 1);
    assert_eq!(
        found.warnings,
        [
            "a/AGENTS.md is left out: instructions may have 32768 bytes in all",
            "AGENTS.md is left out: instructions may have 32768 bytes in all"
        ]
    );
}

#[test]
fn unusable_files_are_skipped_with_a_warning() {
    let files = InMemoryResourceFiles::default()
        .with("AGENTS.md", [0xff, b'a'])
        .with_unreadable("a/AGENTS.md")
        .with("b/AGENTS.md", " \n");
    let found = find_instructions(&files, &paths(&["a/x", "b/x", "a/y"]));
    assert!(found.texts.is_empty());
    assert_eq!(
        found.warnings,
        [
            "AGENTS.md is left out: it is not UTF-8 text",
            "a/AGENTS.md cannot be read: it is locked"
        ]
    );
}

#[test]
fn the_number_of_texts_is_limited() {
    let mut files = InMemoryResourceFiles::default().with("AGENTS.md", "root");
    let mut about = Vec::new();
    for number in 0..60 {
        files = files.with(&format!("f{number:02}/AGENTS.md"), "text");
        about.push(format!("f{number:02}/x").parse().unwrap());
    }
    let found = find_instructions(&files, &about);
    assert_eq!(found.texts.len(), TEXTS_MAXIMUM);
    assert_eq!(
        found.warnings,
        ["11 more AGENTS.md are left out: 50 are used"]
    );
}

#[test]
fn skills_are_found_in_the_known_folders() {
    let files = InMemoryResourceFiles::default()
        .with_skill(
            "skills/release",
            "name: release\ndescription: Makes a release",
        )
        .with_skill(
            ".claude/skills/tests",
            "description: >\n  Writes\n  tests\nlicense: MIT\nmetadata: {a: [1]}",
        )
        .with(
            ".agents/skills/docs/SKILL.md",
            "\u{feff}---\r\nname: docs\r\ndescription: 'Costs ${MONEY}'\r\n---\r\n",
        )
        .with(".agents/skills/README.md", "no skill")
        .with("skills/empty/notes.txt", "no skill")
        .with(
            "elsewhere/skills/x/SKILL.md",
            "---\nname: x\ndescription: x\n---\n",
        );
    let found = find_skills(&files);
    let message: Vec<[String; 3]> = found
        .skills
        .iter()
        .map(|it| [it.name.clone(), it.description.clone(), it.path.to_string()])
        .collect();
    assert_eq!(
        message,
        [
            ["docs", "Costs ${MONEY}", ".agents/skills/docs/SKILL.md"],
            ["release", "Makes a release", "skills/release/SKILL.md"],
            ["tests", "Writes tests", ".claude/skills/tests/SKILL.md"],
        ]
        .map(|row| row.map(str::to_owned))
    );
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);
    let wanted = ["tests".to_owned(), "nothing".to_owned()];
    let some = found.clone().retain_named(Some(&wanted));
    assert_eq!(some.skills.len(), 1);
    assert_eq!(some.warnings, ["there is no skill `nothing`"]);
    assert_eq!(found.clone().retain_named(None), found);
    assert!(found.retain_named(Some(&[])).skills.is_empty());
}

fn assert_left_out(files: &InMemoryResourceFiles, said: &str) {
    let found = find_skills(files);
    assert!(found.skills.is_empty(), "{said}");
    assert_eq!(found.warnings.len(), 1, "{said}");
    assert!(found.warnings[0].contains(said), "{:?}", found.warnings);
    assert!(found.warnings[0].len() < 2000, "{said}");
}

#[test]
fn a_skill_with_broken_front_matter_is_a_warning() {
    let long = format!("name: {}\ndescription: x", "n".repeat(NAME_MAXIMUM + 1));
    let wrong = "invalid front matter: ";
    for (front, said) in [
        ("name: [a", wrong),
        ("name: {a: b}\ndescription: x", wrong),
        ("name: a", "it has no `description`"),
        ("name: ' '\ndescription: x", "its `name` is empty"),
        (&*long, "its `name` has 101 characters, it may have 100"),
        (
            "name: \"a\\nb\"\ndescription: x",
            "its `name` is more than one line of text",
        ),
    ] {
        assert_left_out(
            &InMemoryResourceFiles::default().with_skill("skills/a", front),
            said,
        );
    }
}

#[test]
fn an_invalid_skill_file_is_a_warning() {
    let none = "skills/a/SKILL.md is left out: it does not begin with front matter";
    let endless = "its front matter does not end within 16384 bytes";
    let long = format!("---\nx: {}\n---\n", "é".repeat(20_000));
    for (content, said) in [
        (&b"# Title\n"[..], none),
        (b"", none),
        (b"---\nname: a\n", endless),
        (long.as_bytes(), endless),
        (b"-\xff", "it is not UTF-8 text"),
    ] {
        let files = InMemoryResourceFiles::default().with("skills/a/SKILL.md", content);
        assert_left_out(&files, said);
    }
    let files = InMemoryResourceFiles::default().with_unreadable("skills/a/SKILL.md");
    assert_left_out(&files, "skills/a/SKILL.md cannot be read: it is locked");
    let files = InMemoryResourceFiles::default().with_unreadable("skills");
    assert_left_out(&files, "skills cannot be read: it is locked");
}

#[test]
fn the_first_folder_wins_for_duplicate_names() {
    let files = InMemoryResourceFiles::default()
        .with_skill("skills/a", "name: same\ndescription: second")
        .with_skill(".agents/skills/z", "name: same\ndescription: first");
    let found = find_skills(&files);
    assert_eq!(found.skills.len(), 1);
    assert_eq!(found.skills[0].description, "first");
    assert_eq!(
        found.warnings,
        [
            "skills/a/SKILL.md is left out: the skill `same` is that of \
          .agents/skills/z/SKILL.md already"
        ]
    );
}

#[test]
fn skills_and_warnings_are_limited() {
    let mut files = InMemoryResourceFiles::default();
    for number in 0..150 {
        files = files
            .with_skill(&format!("skills/s{number:03}"), "description: x")
            .with_skill(&format!(".agents/skills/b{number:03}"), "name: x");
    }
    let found = find_skills(&files);
    assert_eq!(found.skills.len(), SKILLS_MAXIMUM);
    assert_eq!(found.skills[99].name, "s099");
    assert_eq!(found.warnings.len(), 21);
    assert_eq!(found.warnings[20], "and 131 more");
}

proptest! {
    #[test]
    fn bounds_hold_for_any_content(
        contents in prop::collection::vec((".{0,40}\n?", 0_usize..3000), 1..6),
        description in "\\PC{0,2000}",
    ) {
        let mut files = InMemoryResourceFiles::default();
        let mut about = Vec::new();
        let mut folder = String::new();
        for (text, times) in &contents {
            files = files.with(&format!("{folder}AGENTS.md"), text.repeat(*times));
            folder.push_str("f/");
            about.push(format!("{folder}x").parse::<ResourcePath>().unwrap());
        }
        let yaml = serde_json::to_string(&description).unwrap();
        files = files.with_skill("skills/a", &format!("description: {yaml}"));
        let found = find_instructions(&files, &about);
        let total: usize = found.texts.iter().map(|it| it.text.len()).sum();
        prop_assert!(total <= TOTAL_MAXIMUM);
        for each in &found.texts {
            prop_assert!(!each.text.trim().is_empty());
            let hash = blake3::hash(each.text.as_bytes()).to_string();
            prop_assert_eq!(&each.hash, &hash);
        }
        prop_assert_eq!(&found, &find_instructions(&files, &about));
        let skills = find_skills(&files);
        prop_assert_eq!(skills.skills.len() + skills.warnings.len(), 1);
        for skill in &skills.skills {
            prop_assert!(skill.description.chars().count() <= DESCRIPTION_MAXIMUM);
            prop_assert!(!skill.description.chars().any(char::is_control));
        }
    }
}
