//! Computes the confidence in an operation from four factors.
//!
//! Each factor is a number from 0 to 1 with a source and a weight. Nothing is kept in memory:
//! outcomes are counted in the store, so that all processes share them and none is lost.

use std::sync::Arc;

use cleveragents_domain::automation::GateDecision;
use cleveragents_domain::{
    AutomationProfile, Confidence, NamespacedName, Plan, PlanState, ThresholdName,
};
use serde::{Deserialize, Serialize};

use crate::lifecycle::{Result, effective_invariants};
use cleveragents_ports::{
    Ids, OperationOutcome, OutcomeCounts, PlanFilter, StoreError, StoreHandle, StoreOperation,
    Transaction,
};

/// Number of applied plans at which the familiarity of a project is one half.
const HALF_FAMILIAR: u64 = 5;

/// Number of rules at which the complexity is one half.
const HALF_COMPLEX: u64 = 10;

/// Number of risk points at which the risk is one half.
const HALF_RISKY: u64 = 20;

/// A weight in tenths.
const fn tenths(number: u8) -> f64 {
    number as f64 / 10.0
}

/// The planned effects of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Risk {
    /// Number of files to write or edit.
    pub files: u32,
    /// Number of files to delete.
    pub deletes: u32,
    /// Number of commands to run.
    pub commands: u32,
}

impl Risk {
    /// Returns a value from 0 (no effects) towards 1. A file is one point, a command two and a
    /// deletion three, because it is the hardest to undo. Twenty points are one half.
    pub fn value(self) -> f64 {
        let points =
            u64::from(self.files) + 2 * u64::from(self.commands) + 3 * u64::from(self.deletes);
        saturating(points, HALF_RISKY)
    }
}

/// One factor of the confidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    pub name: FactorName,
    /// The raw value, from 0 to 1.
    pub value: f64,
    pub weight: f64,
    /// Its contribution to the confidence. An inverted factor contributes more the smaller it is.
    pub contribution: f64,
    /// The source of the value.
    pub source: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactorName {
    PastSuccessRate,
    CodebaseFamiliarity,
    RiskAssessment,
    InvariantComplexity,
}

impl FactorName {
    pub const ALL: [Self; 4] = [
        Self::PastSuccessRate,
        Self::CodebaseFamiliarity,
        Self::RiskAssessment,
        Self::InvariantComplexity,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PastSuccessRate => "past_success_rate",
            Self::CodebaseFamiliarity => "codebase_familiarity",
            Self::RiskAssessment => "risk_assessment",
            Self::InvariantComplexity => "invariant_complexity",
        }
    }

    /// Returns its weight; all weights add up to 1.
    pub const fn weight(self) -> f64 {
        match self {
            Self::PastSuccessRate | Self::RiskAssessment => tenths(3),
            Self::CodebaseFamiliarity | Self::InvariantComplexity => tenths(2),
        }
    }

    /// Whether a high value lowers the confidence.
    pub const fn is_inverted(self) -> bool {
        matches!(self, Self::RiskAssessment | Self::InvariantComplexity)
    }

    fn factor(self, value: f64, source: String) -> Factor {
        let counted = if self.is_inverted() {
            1.0 - value
        } else {
            value
        };
        Factor {
            name: self,
            value,
            weight: self.weight(),
            contribution: self.weight() * counted,
            source,
        }
    }
}

/// The confidence in an operation, with its factors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assessment {
    pub confidence: Confidence,
    pub factors: Vec<Factor>,
    pub explanation: String,
}

/// Whether an operation continues without the user, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EscalationDecision {
    pub proceed: bool,
    pub confidence: Confidence,
    pub factors: Vec<Factor>,
    pub explanation: String,
}

impl Assessment {
    fn of(factors: Vec<Factor>) -> Result<Self> {
        let sum: f64 = factors.iter().map(|factor| factor.contribution).sum();
        // The weights add up to 1 only within floating-point precision.
        let confidence = Confidence::new(sum.clamp(0.0, 1.0)).map_err(StoreError::internal)?;
        let parts: Vec<String> = factors.iter().map(Factor::to_string).collect();
        Ok(Self {
            confidence,
            explanation: format!("confidence {sum:.2}: {}", parts.join("; ")),
            factors,
        })
    }

    /// Limits the confidence to the one stated by the author of the strategy.
    #[must_use]
    pub fn at_most(self, stated: Option<Confidence>) -> Self {
        match stated {
            Some(stated) if stated < self.confidence => Self {
                confidence: stated,
                explanation: format!(
                    "the strategy states confidence {stated}; otherwise {}",
                    self.explanation
                ),
                factors: self.factors,
            },
            _ => self,
        }
    }

    /// Applies the profile's threshold: the operation proceeds if the confidence reaches it. A
    /// threshold of 1 always asks the user.
    pub fn gate(self, profile: &AutomationProfile, threshold: ThresholdName) -> EscalationDecision {
        let proceed = profile.gate(threshold, self.confidence) == GateDecision::Proceed;
        let asked = profile.thresholds.get(threshold);
        EscalationDecision {
            proceed,
            confidence: self.confidence,
            explanation: format!(
                "{threshold} of {} requires {asked}; {}",
                profile.name, self.explanation
            ),
            factors: self.factors,
        }
    }
}

impl std::fmt::Display for Factor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.name.as_str();
        write!(f, "{name} {:.2} adds {:.2}", self.value, self.contribution)?;
        write!(f, " ({})", self.source)
    }
}

/// Service for confidence. Safe for concurrent callers.
#[derive(Debug, Clone)]
pub struct ConfidenceService {
    store: StoreHandle,
    ids: Arc<dyn Ids>,
}

impl ConfidenceService {
    pub fn new(store: StoreHandle, ids: Arc<dyn Ids>) -> Self {
        Self { store, ids }
    }

    /// Counts the outcome of an operation of this type.
    pub async fn record_outcome(
        &self,
        operation: &str,
        outcome: OperationOutcome,
    ) -> Result<OutcomeCounts> {
        let operation = operation.to_owned();
        self.store
            .write(
                StoreOperation::new(&*self.ids, "confidence.record-outcome"),
                move |tx| Ok(tx.count_outcome(&operation, outcome)?),
            )
            .await
    }

    /// Assesses an operation of this type in the plan.
    pub async fn assess(&self, plan: &Plan, operation: &str, risk: Risk) -> Result<Assessment> {
        let (plan, operation) = (plan.clone(), operation.to_owned());
        let ids = Arc::clone(&self.ids);
        self.store
            .read(move |tx| {
                Assessment::of(vec![
                    past_success(tx, &operation)?,
                    familiarity(tx, &plan)?,
                    riskiness(risk),
                    complexity(tx, &*ids, &plan)?,
                ])
            })
            .await
    }
}

/// Returns the share of successes, with one success and one failure added. So an untried operation
/// gets one half, and a single outcome does not make it certain.
fn past_success(tx: &mut dyn Transaction, operation: &str) -> Result<Factor> {
    let counts = tx.outcome_counts(operation)?;
    let (successes, failures) = (counts.successes, counts.failures);
    let value = ratio(
        successes.saturating_add(1),
        successes.saturating_add(failures).saturating_add(2),
    );
    let source = format!("{operation}: {successes} successes, {failures} failures");
    Ok(FactorName::PastSuccessRate.factor(value, source))
}

/// Returns the familiarity of the plan's least familiar project.
fn familiarity(tx: &mut dyn Transaction, plan: &Plan) -> Result<Factor> {
    let mut least: Option<(f64, String)> = None;
    for project in &plan.brief.projects {
        let found = familiarity_with(tx, project)?;
        if least.as_ref().is_none_or(|(value, _)| found.0 < *value) {
            least = Some(found);
        }
    }
    let (value, source) = least.unwrap_or((0.0, "no project".to_owned()));
    Ok(FactorName::CodebaseFamiliarity.factor(value, source))
}

/// Returns the share of finished plans that were applied, weighted by their number: five applied
/// plans and no others are one half.
fn familiarity_with(tx: &mut dyn Transaction, project: &NamespacedName) -> Result<(f64, String)> {
    let page = tx.list_plans(&PlanFilter {
        projects: vec![project.clone()],
        limit: Some(0),
        ..PlanFilter::default()
    })?;
    let count = |state| page.by_state.get(&state).copied().unwrap_or(0);
    let (applied, cancelled) = (count(PlanState::Applied), count(PlanState::Cancelled));
    let finished = applied.saturating_add(cancelled);
    let value = match finished {
        0 => 0.0,
        _ => ratio(applied, finished) * saturating(applied, HALF_FAMILIAR),
    };
    let source = format!("{project}: {applied} of {finished} finished plans were applied");
    Ok((value, source))
}

fn riskiness(risk: Risk) -> Factor {
    let Risk {
        files,
        deletes,
        commands,
    } = risk;
    let source = format!("{files} files, {deletes} deletions, {commands} commands");
    FactorName::RiskAssessment.factor(risk.value(), source)
}

/// Returns the complexity of the rules: ten rules are one half.
fn complexity(tx: &mut dyn Transaction, ids: &dyn Ids, plan: &Plan) -> Result<Factor> {
    let rules = effective_invariants(tx, ids, plan)?.len();
    let value = saturating(rules as u64, HALF_COMPLEX);
    Ok(FactorName::InvariantComplexity.factor(value, format!("{rules} rules")))
}

/// Maps a number to [0, 1); `half` maps to one half.
fn saturating(number: u64, half: u64) -> f64 {
    ratio(number, number.saturating_add(half))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a share needs no more digits than a double has"
)]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use cleveragents_domain::BuiltInProfile;

    use super::*;

    fn assessment(values: [f64; 4]) -> Assessment {
        let factors = FactorName::ALL.iter().zip(values);
        let found = factors.map(|(name, value)| name.factor(value, "a test".to_owned()));
        Assessment::of(found.collect()).unwrap()
    }

    #[test]
    fn the_weights_are_as_agreed_and_add_up_to_one() {
        let weights = FactorName::ALL.map(FactorName::weight);
        assert_eq!(weights, [0.30, 0.20, 0.30, 0.20]);
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert_eq!(
            FactorName::ALL.map(FactorName::is_inverted),
            [false, false, true, true]
        );
    }

    #[test]
    fn extreme_factors_give_extreme_confidence() {
        assert!(assessment([1.0, 1.0, 0.0, 0.0]).confidence.value() > 0.999);
        assert!(assessment([0.0, 0.0, 1.0, 1.0]).confidence.value() < 0.001);
    }

    #[test]
    fn each_factor_alone_decides_under_cautious() {
        let profile = BuiltInProfile::Cautious.profile();
        let gate = |values| assessment(values).gate(&profile, ThresholdName::DecideInExecute);
        let sure = [0.9, 0.6, 0.2, 0.3];
        assert!(gate(sure).proceed, "{}", gate(sure).explanation);
        for (number, name) in FactorName::ALL.iter().enumerate() {
            let mut values = sure;
            values[number] = if name.is_inverted() { 1.0 } else { 0.0 };
            let decision = gate(values);
            assert!(!decision.proceed, "{name:?}: {}", decision.explanation);
            assert!(decision.explanation.contains(name.as_str()));
        }
    }

    #[test]
    fn a_threshold_of_one_always_asks() {
        let best = assessment([1.0, 1.0, 0.0, 0.0]);
        let manual = BuiltInProfile::Manual.profile();
        let decision = best.gate(&manual, ThresholdName::DecideInExecute);
        assert!(!decision.proceed);
        assert!(
            decision
                .explanation
                .starts_with("execute_command of manual requires 1")
        );
    }

    #[test]
    fn risk_grows_but_never_reaches_one() {
        let risk = |files, deletes, commands| Risk {
            files,
            deletes,
            commands,
        };
        assert_eq!(Risk::default().value(), 0.0);
        assert_eq!(risk(20, 0, 0).value(), 0.5);
        assert_eq!(risk(0, 0, 10).value(), 0.5);
        assert!(risk(0, 1, 0).value() > risk(0, 0, 1).value());
        assert!(risk(0, 0, 1).value() > risk(1, 0, 0).value());
        let all = risk(u32::MAX, u32::MAX, u32::MAX).value();
        assert!(all < 1.0 && all > 0.99);
    }
}
