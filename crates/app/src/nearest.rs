//! Suggestions for names that do not exist.

use cleveragents_domain::{NamespacedName, ResourcePath};

/// The similarity from which a name counts as a misspelling of another.
const SIMILARITY_MINIMUM: f64 = 0.8;
const SUGGESTIONS_MAXIMUM: usize = 3;

/// Returns the known names most similar to `name`, best first. A missing or wrong namespace is
/// tolerated by comparing the last part alone.
pub fn nearest<'a>(
    name: &NamespacedName,
    known: impl IntoIterator<Item = &'a NamespacedName>,
) -> Vec<&'a NamespacedName> {
    let mut alike: Vec<(f64, &NamespacedName)> = known
        .into_iter()
        .map(|other| (similarity(name, other), other))
        .filter(|(likeness, _)| *likeness >= SIMILARITY_MINIMUM)
        .collect();
    alike.sort_by(|(one, first), (other, second)| {
        other.total_cmp(one).then_with(|| first.cmp(second))
    });
    alike.truncate(SUGGESTIONS_MAXIMUM);
    alike.into_iter().map(|(_, other)| other).collect()
}

/// Returns the known paths most similar to `typed`, best first. Missing folders are tolerated by
/// comparing the file name alone.
pub fn nearest_paths(typed: &str, known: &[ResourcePath]) -> Vec<String> {
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let wanted = name(typed);
    let mut alike: Vec<(f64, String)> = known
        .iter()
        .map(|path| {
            let path = path.to_string();
            let whole = strsim::jaro_winkler(typed, &path);
            let last = strsim::jaro_winkler(&wanted, &name(&path)) * 0.95;
            (whole.max(last), path)
        })
        .filter(|(likeness, _)| *likeness >= SIMILARITY_MINIMUM)
        .collect();
    alike.sort_by(|(one, first), (other, second)| {
        other.total_cmp(one).then_with(|| first.cmp(second))
    });
    alike.truncate(SUGGESTIONS_MAXIMUM);
    alike.into_iter().map(|(_, path)| path).collect()
}

fn similarity(one: &NamespacedName, other: &NamespacedName) -> f64 {
    let last = strsim::jaro_winkler(one.name(), other.name());
    if one.namespace() == other.namespace() {
        last
    } else {
        // Slightly lower, so that of two equal matches the one in the right namespace comes first.
        last * 0.95
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_by_similarity_or_last_part() {
        let known = ["src/cart.rs", "src/main.rs", "docs/shop.md"];
        let known = known.map(|path| path.parse().unwrap());
        assert_eq!(nearest_paths("src/crat.rs", &known)[0], "src/cart.rs");
        assert_eq!(nearest_paths("shop.md", &known), ["docs/shop.md"]);
        assert!(nearest_paths("Makefile", &known).is_empty());
    }

    #[test]
    fn typos_are_matched_most_similar_first() {
        let known: Vec<NamespacedName> = ["team/lint", "local/lint", "local/link", "local/deploy"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let found = |text: &str| -> Vec<String> {
            let name = text.parse().unwrap();
            nearest(&name, &known)
                .into_iter()
                .map(ToString::to_string)
                .collect()
        };
        assert_eq!(found("lnit"), ["local/lint", "team/lint"]);
        assert_eq!(found("lint")[..2], ["local/lint", "team/lint"]);
        assert_eq!(found("team/dploy"), ["local/deploy"]);
        assert!(found("zzz").is_empty());
    }
}
