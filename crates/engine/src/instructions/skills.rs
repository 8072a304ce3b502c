//! Skills: folders whose `SKILL.md` says by its front matter what they are good for.
//!
//! Only name and description are told at first; an actor that wants more reads the file itself.

use std::collections::BTreeMap;

use cleveragents_domain::ResourcePath;
use serde::Deserialize;

use super::{ResourceFiles, UnreadablePath, Warnings, decode_text, join_path};

/// Where skills are looked for; of two with one name the one found first counts.
const SKILL_FOLDERS: [&str; 3] = [".agents/skills", ".claude/skills", "skills"];

/// The name of the files.
const FILE: &str = "SKILL.md";

/// How many skills there may be.
pub const SKILLS_MAXIMUM: usize = 100;
/// The longest a name may be, in characters.
pub const NAME_MAXIMUM: usize = 100;
/// The longest a description may be, in characters; a longer one is cut.
pub const DESCRIPTION_MAXIMUM: usize = 1_024;

/// How many folders of one place are looked into.
const FOLDERS_MAXIMUM: usize = 1_000;
/// How many bytes of a file are looked at for its front matter.
const FRONT_MAXIMUM: usize = 16 << 10;

/// What can be learnt from a resource, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skills {
    pub skills: Vec<Skill>,
    pub warnings: Vec<String>,
}

/// A skill as an actor is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    /// One line.
    pub description: String,
    /// The file that says how it is done.
    pub path: ResourcePath,
}

impl Skills {
    /// Those of these names, in their own order; all if there is no list. A name that is not there
    /// is a warning.
    #[must_use]
    pub fn retain_named(mut self, names: Option<&[String]>) -> Self {
        let Some(names) = names else {
            return self;
        };
        let mut warnings = Warnings::default();
        for name in names {
            if !self.skills.iter().any(|skill| skill.name == *name) {
                warnings.add(format!("there is no skill `{name}`"));
            }
        }
        self.skills.retain(|skill| names.contains(&skill.name));
        self.warnings.extend(warnings.finish());
        self
    }
}

/// The skills of a resource.
pub fn find_skills(files: &dyn ResourceFiles) -> Skills {
    let mut warnings = Warnings::default();
    let mut found: BTreeMap<String, Skill> = BTreeMap::new();
    let mut more = 0_usize;
    for place in SKILL_FOLDERS {
        for folder in list_folders(files, place, &mut warnings) {
            let skill = match read_skill(files, &folder) {
                Ok(None) => continue,
                Ok(Some(skill)) => skill,
                Err(problem) => {
                    warnings.add(problem);
                    continue;
                }
            };
            match found.get(&skill.name) {
                Some(first) => warnings.add(format!(
                    "{} is left out: the skill `{}` is that of {} already",
                    skill.path, skill.name, first.path
                )),
                None if found.len() == SKILLS_MAXIMUM => more += 1,
                None => drop(found.insert(skill.name.clone(), skill)),
            }
        }
    }
    if more > 0 {
        warnings.add(format!(
            "{more} more skills are left out: there may be {SKILLS_MAXIMUM}"
        ));
    }
    Skills {
        skills: found.into_values().collect(),
        warnings: warnings.finish(),
    }
}

fn list_folders(
    files: &dyn ResourceFiles,
    place: &str,
    warnings: &mut Warnings,
) -> Vec<ResourcePath> {
    let Some(place) = join_path(None, place) else {
        return Vec::new();
    };
    let mut folders = match files.entries(&place) {
        Ok(folders) => folders,
        Err(error) => {
            warnings.add(error.to_string());
            return Vec::new();
        }
    };
    folders.sort();
    if folders.len() > FOLDERS_MAXIMUM {
        warnings.add(format!(
            "{place} has {} entries; {FOLDERS_MAXIMUM} are looked at",
            folders.len()
        ));
        folders.truncate(FOLDERS_MAXIMUM);
    }
    folders
}

/// The skill in a folder; `None` if it has no file that could be one.
fn read_skill(files: &dyn ResourceFiles, folder: &ResourcePath) -> Result<Option<Skill>, String> {
    let Some(path) = join_path(Some(folder), FILE) else {
        return Ok(None);
    };
    let bytes = match files.read(&path, FRONT_MAXIMUM) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(None),
        Err(error @ UnreadablePath { .. }) => return Err(error.to_string()),
    };
    let out = |why: &str| format!("{path} is left out: {why}");
    let text = decode_text(bytes, FRONT_MAXIMUM).ok_or_else(|| out("it is not UTF-8 text"))?;
    let front = front_matter(&text).map_err(|why| out(&why))?;
    let name = match front.name {
        Some(name) => name.trim().to_owned(),
        None => last_component(folder).ok_or_else(|| out("it has no `name`"))?,
    };
    check_name(&name).map_err(|why| out(&why))?;
    let description = one_line(&front.description.unwrap_or_default());
    match description.is_empty() {
        true => Err(out("it has no `description`")),
        false => Ok(Some(Skill {
            name,
            description,
            path,
        })),
    }
}

/// The keys that matter; others are for other programs.
#[derive(Debug, Deserialize)]
struct FrontMatter {
    name: Option<String>,
    description: Option<String>,
}

fn front_matter(text: &str) -> Result<FrontMatter, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    if lines.next().map(str::trim_end) != Some("---") {
        return Err("it does not begin with front matter between lines of `---`".to_owned());
    }
    let mut front = String::new();
    for line in lines {
        if line.trim_end() == "---" {
            return serde_saphyr::from_str(&front).map_err(|error| {
                let said = error.to_string();
                let first = one_line(said.lines().next().unwrap_or_default());
                format!("its front matter is not what it should be: {first}")
            });
        }
        front.push_str(line);
    }
    Err(format!(
        "its front matter does not end within {FRONT_MAXIMUM} bytes"
    ))
}

fn last_component(folder: &ResourcePath) -> Option<String> {
    let last = folder.as_bytes().rsplit(|byte| *byte == b'/').next()?;
    String::from_utf8(last.to_vec()).ok()
}

fn check_name(name: &str) -> Result<(), String> {
    let length = name.chars().count();
    if name.is_empty() {
        return Err("its `name` is empty".to_owned());
    }
    if length > NAME_MAXIMUM {
        return Err(format!(
            "its `name` has {length} characters, it may have {NAME_MAXIMUM}"
        ));
    }
    match name.chars().any(char::is_control) {
        true => Err("its `name` is more than one line of text".to_owned()),
        false => Ok(()),
    }
}

/// The words of a text with single spaces between them, cut if it is long.
fn one_line(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.chars().map(plain).collect();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(DESCRIPTION_MAXIMUM) {
        None => line,
        Some(_) => {
            let kept: String = line.chars().take(DESCRIPTION_MAXIMUM - 1).collect();
            kept + "…"
        }
    }
}
