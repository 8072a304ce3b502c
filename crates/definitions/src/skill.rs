//! The front matter of a `SKILL.md`: name and description of a skill.

use serde::Deserialize;

/// Maximum number of bytes of a file in which its front matter must end.
pub const FRONT_MATTER_MAXIMUM: usize = 16 << 10;

/// The keys that are used; others belong to other programs.
#[derive(Debug, Deserialize)]
pub struct SkillFrontMatter {
    pub name: Option<String>,
    pub description: Option<String>,
}

/// Reads the front matter at the start of `text`. The error is one line.
pub fn read_front_matter(text: &str) -> Result<SkillFrontMatter, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    if lines.next().map(str::trim_end) != Some("---") {
        return Err("it does not begin with front matter between lines of `---`".to_owned());
    }
    let mut front = String::new();
    for line in lines {
        if line.trim_end() == "---" {
            return serde_saphyr::from_str(&front).map_err(|error| {
                let text = error.to_string();
                let first = text.lines().next().unwrap_or_default();
                let words: Vec<&str> = first.split_whitespace().collect();
                format!("invalid front matter: {}", words.join(" "))
            });
        }
        front.push_str(line);
    }
    Err(format!(
        "its front matter does not end within {FRONT_MATTER_MAXIMUM} bytes"
    ))
}
