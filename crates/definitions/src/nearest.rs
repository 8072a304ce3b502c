//! Finds the known word that a misspelt one was probably meant to be.

/// Minimum similarity of two words for a suggestion.
const SIMILARITY_MINIMUM: f64 = 0.75;

/// Returns the most similar word of `known`, if it is similar enough.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(score, _)| *score >= SIMILARITY_MINIMUM)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_name_and_nonsense_none() {
        let known = ["name", "description", "definition_of_done"];
        assert_eq!(nearest("nmae", known), Some("name"));
        assert_eq!(nearest("descripton", known), Some("description"));
        assert_eq!(
            nearest("definition-of-done", known),
            Some("definition_of_done")
        );
        assert_eq!(nearest("zzz", known), None);
        assert_eq!(nearest("name", []), None);
    }
}
