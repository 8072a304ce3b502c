//! Format versions: older ones are always readable, newer ones are refused.

use std::cmp::Ordering;

use super::error::{Problem, Problems};
use super::yaml::{DefinitionSource, DefinitionVariables, ResolvedScalar, YamlNode};

/// The newest format version that this program reads.
pub const FORMAT_VERSION: u64 = 1;

/// Parses a definition of a supported format; `what` names its kind. A newer format is refused
/// before its keys are read: they would all be reported as wrong.
pub(super) fn parse_versioned(
    source: &DefinitionSource<'_>,
    variables: DefinitionVariables<'_>,
    what: &str,
    problems: &mut Problems,
) -> Option<YamlNode> {
    match source.parse(variables) {
        Ok(node) => match version_problem(&node, what) {
            None => return Some(node),
            Some(problem) => problems.add(problem),
        },
        Err(found) => problems.add_all(found),
    }
    None
}

fn version_problem(node: &YamlNode, what: &str) -> Option<Problem> {
    let version = version_of(node)?;
    let (said, hint) = match version.cmp(&i128::from(FORMAT_VERSION)) {
        Ordering::Equal => return None,
        Ordering::Less => (
            format!("there is no version {version} of {what}"),
            format!("write `version: {FORMAT_VERSION}`"),
        ),
        Ordering::Greater => (
            format!(
                "version {version} of {what} is newer than this program, \
                 which reads version {FORMAT_VERSION}"
            ),
            "use a newer `agents`".to_owned(),
        ),
    };
    Some(Problem::new(node.locate("version"), "version", said).hint(hint))
}

/// Returns `None` if the version is not an integer; the reader of the key reports that.
fn version_of(node: &YamlNode) -> Option<i128> {
    match node.scalar_at("version")?.resolve_typed() {
        ResolvedScalar::Integer(version) => Some(version),
        _ => None,
    }
}
