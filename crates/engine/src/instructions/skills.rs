//! Skills: folders whose `SKILL.md` describes them in its front matter.
//!
//! Only name and description are given to the actor; to use a skill, it reads the file.

use std::collections::BTreeMap;

use cleveragents_definitions::skill::{FRONT_MATTER_MAXIMUM, read_front_matter};
use cleveragents_domain::ResourcePath;

use super::{ResourceFiles, UnreadablePath, Warnings, decode_text, join_path};

/// Folders that are searched for skills. Of two skills with one name the first counts.
const SKILL_FOLDERS: [&str; 3] = [".agents/skills", ".claude/skills", "skills"];

const FILE: &str = "SKILL.md";

/// Maximum number of skills.
pub const SKILLS_MAXIMUM: usize = 100;
/// Maximum length of a name, in characters.
pub const NAME_MAXIMUM: usize = 100;
/// Maximum length of a description, in characters; a longer one is cut.
pub const DESCRIPTION_MAXIMUM: usize = 1_024;

/// Maximum number of folders searched per location.
const FOLDERS_MAXIMUM: usize = 1_000;

/// The skills of a resource, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skills {
    pub skills: Vec<Skill>,
    pub warnings: Vec<String>,
}

/// A skill as described to an actor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    /// One line.
    pub description: String,
    /// The file with the instructions.
    pub path: ResourcePath,
}

impl Skills {
    /// Keeps the skills with these names, in the skills' own order; all if `names` is `None`. Adds
    /// a warning for each missing name.
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
            "{place} has {} entries; {FOLDERS_MAXIMUM} are read",
            folders.len()
        ));
        folders.truncate(FOLDERS_MAXIMUM);
    }
    folders
}

/// Returns the skill in a folder; `None` if it has no skill file.
fn read_skill(files: &dyn ResourceFiles, folder: &ResourcePath) -> Result<Option<Skill>, String> {
    let Some(path) = join_path(Some(folder), FILE) else {
        return Ok(None);
    };
    let bytes = match files.read(&path, FRONT_MATTER_MAXIMUM) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(None),
        Err(error @ UnreadablePath { .. }) => return Err(error.to_string()),
    };
    let out = |why: &str| format!("{path} is left out: {why}");
    let text =
        decode_text(bytes, FRONT_MATTER_MAXIMUM).ok_or_else(|| out("it is not UTF-8 text"))?;
    let front = read_front_matter(&text).map_err(|why| out(&why))?;
    let name = match front.name {
        Some(name) => name.trim().to_owned(),
        None => last_component(folder).ok_or_else(|| out("it has no `name`"))?,
    };
    check_name(&name).map_err(|why| out(&why))?;
    let description = one_line(&front.description.unwrap_or_default());
    if description.is_empty() {
        Err(out("it has no `description`"))
    } else {
        Ok(Some(Skill {
            name,
            description,
            path,
        }))
    }
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
    if name.chars().any(char::is_control) {
        Err("its `name` is more than one line of text".to_owned())
    } else {
        Ok(())
    }
}

/// Collapses white space to single spaces and cuts a long text.
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
