//! Merging two profiles: for each element, the stricter one wins.
//!
//! Needed because a repository may request a profile but may only tighten the user's choice. No
//! profile is stricter than another as a whole (`cautious` asks where `supervised` does not, and
//! vice versa), so each element is compared separately.

use std::cmp::Ordering;

use super::{AutomationProfile, Guards, RetryLimits, Thresholds};
use crate::name::NamespacedName;

impl AutomationProfile {
    /// Returns this profile with every element replaced for which `other` is stricter. Name and
    /// description stay, unless `other` is stricter in all elements: then the result is `other`.
    #[must_use]
    pub fn tightened_by(&self, other: &Self) -> Self {
        let merged = Self {
            name: self.name.clone(),
            description: self.description.clone(),
            thresholds: self.thresholds.strictest(&other.thresholds),
            require_sandbox: self.require_sandbox || other.require_sandbox,
            require_checkpoints: self.require_checkpoints || other.require_checkpoints,
            allow_unsafe_tools: self.allow_unsafe_tools && other.allow_unsafe_tools,
            allow_forced_checks: self.allow_forced_checks && other.allow_forced_checks,
            guards: self.guards.strictest(&other.guards),
            limits: self.limits.strictest(other.limits),
        };
        let named = |profile: &Self| Self {
            name: profile.name.clone(),
            description: profile.description.clone(),
            ..merged.clone()
        };
        if merged != *self && named(other) == *other {
            return other.clone();
        }
        merged
    }

    /// Returns whether merging `other` would change nothing: this profile is at least as strict in
    /// every element.
    pub fn is_at_least_as_strict_as(&self, other: &Self) -> bool {
        self.tightened_by(other) == *self
    }
}

impl Thresholds {
    fn strictest(&self, other: &Self) -> Self {
        self.merge(other, |one, two| match one.partial_cmp(&two) {
            Some(Ordering::Less) => two,
            _ => one,
        })
    }
}

impl Guards {
    fn strictest(&self, other: &Self) -> Self {
        let mut denied = union(&self.tool_denylist, &other.tool_denylist);
        let (one, two) = (&self.tool_allowlist, &other.tool_allowlist);
        let allowed = if one.is_empty() {
            two.clone()
        } else if two.is_empty() {
            one.clone()
        } else {
            let both: Vec<NamespacedName> =
                one.iter().filter(|it| two.contains(it)).cloned().collect();
            if both.is_empty() {
                // An empty allowlist allows every tool, so the first list stays and each tool of it
                // is denied: no tool is left.
                denied = union(&denied, one);
                one.clone()
            } else {
                both
            }
        };
        Self {
            tool_denylist: denied,
            tool_allowlist: allowed,
            max_tool_calls_per_step: smaller_limit(
                self.max_tool_calls_per_step,
                other.max_tool_calls_per_step,
                u32::min,
            ),
            max_total_cost: smaller_limit(self.max_total_cost, other.max_total_cost, f64::min),
            require_approval_for_writes: self.require_approval_for_writes
                || other.require_approval_for_writes,
            require_approval_for_apply: self.require_approval_for_apply
                || other.require_approval_for_apply,
        }
    }
}

impl RetryLimits {
    fn strictest(self, other: Self) -> Self {
        Self {
            max_retries_per_step: self.max_retries_per_step.min(other.max_retries_per_step),
            validation_retry_limit: self
                .validation_retry_limit
                .min(other.validation_retry_limit),
        }
    }
}

fn union(one: &[NamespacedName], two: &[NamespacedName]) -> Vec<NamespacedName> {
    let mut all = one.to_vec();
    all.extend(two.iter().filter(|it| !one.contains(it)).cloned());
    all
}

/// The smaller of two limits. `None` means no limit and is the largest.
fn smaller_limit<T>(one: Option<T>, two: Option<T>, smaller: fn(T, T) -> T) -> Option<T> {
    match (one, two) {
        (Some(one), Some(two)) => Some(smaller(one, two)),
        (one, two) => one.or(two),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BuiltInProfile, GuardRefusal, GuardedCall, ThresholdName};
    use super::*;
    use crate::automation::Approval;
    use crate::tool::ToolAccess;

    fn tool(text: &str) -> NamespacedName {
        text.parse().unwrap()
    }

    fn pairs() -> impl Iterator<Item = (BuiltInProfile, BuiltInProfile)> {
        let all = BuiltInProfile::ALL.iter().copied();
        all.flat_map(|one| BuiltInProfile::ALL.iter().map(move |two| (one, *two)))
    }

    #[test]
    fn a_merged_profile_is_never_looser_than_either() {
        for (one, two) in pairs() {
            let (one, two) = (one.profile(), two.profile());
            let merged = one.tightened_by(&two);
            for name in ThresholdName::ALL {
                let stricter = one
                    .thresholds
                    .get(*name)
                    .value()
                    .max(two.thresholds.get(*name).value());
                assert_eq!(merged.thresholds.get(*name).value(), stricter, "{name}");
            }
            assert!(merged.is_at_least_as_strict_as(&one), "{merged:?}");
            assert!(merged.is_at_least_as_strict_as(&two), "{merged:?}");
            let other_way = two.tightened_by(&one);
            assert_eq!(merged.thresholds, other_way.thresholds);
            assert_eq!(merged.guards, other_way.guards);
        }
    }

    #[test]
    fn a_stricter_profile_replaces_a_looser_one() {
        let supervised = BuiltInProfile::Supervised.profile();
        let merged = supervised.tightened_by(&BuiltInProfile::FullAuto.profile());
        assert_eq!(merged, supervised);
        let merged = supervised.tightened_by(&BuiltInProfile::Manual.profile());
        assert_eq!(merged, BuiltInProfile::Manual.profile());
        let full_auto = BuiltInProfile::FullAuto.profile();
        assert_eq!(full_auto.tightened_by(&supervised), supervised);
    }

    /// `supervised` comes before `cautious` in the list of profiles, but is less strict in four
    /// elements.
    #[test]
    fn partly_stricter_profiles_are_merged() {
        let merged = BuiltInProfile::Cautious
            .profile()
            .tightened_by(&BuiltInProfile::Supervised.profile());
        assert_eq!(merged.name, BuiltInProfile::Cautious.profile().name);
        let value = |name| merged.thresholds.get(name).value();
        assert_eq!(value(ThresholdName::StartExecute), 1.0);
        assert_eq!(value(ThresholdName::DecideInExecute), 0.7);
    }

    #[test]
    fn guards_and_limits_are_the_tighter_of_both() {
        let guarded = |guards, limits| AutomationProfile {
            guards,
            limits,
            ..BuiltInProfile::Ci.profile()
        };
        let mine = guarded(
            Guards {
                tool_denylist: vec![tool("a/x")],
                tool_allowlist: vec![tool("a/y"), tool("a/z")],
                max_tool_calls_per_step: Some(9),
                max_total_cost: None,
                require_approval_for_writes: true,
                require_approval_for_apply: false,
            },
            RetryLimits {
                max_retries_per_step: 5,
                validation_retry_limit: 1,
            },
        );
        let theirs = guarded(
            Guards {
                tool_denylist: vec![tool("a/w"), tool("a/x")],
                tool_allowlist: vec![tool("a/z"), tool("a/v")],
                max_tool_calls_per_step: Some(20),
                max_total_cost: Some(2.5),
                require_approval_for_writes: false,
                require_approval_for_apply: true,
            },
            RetryLimits {
                max_retries_per_step: 2,
                validation_retry_limit: 7,
            },
        );
        let merged = mine.tightened_by(&theirs);
        assert_eq!(
            merged.guards,
            Guards {
                tool_denylist: vec![tool("a/x"), tool("a/w")],
                tool_allowlist: vec![tool("a/z")],
                max_tool_calls_per_step: Some(9),
                max_total_cost: Some(2.5),
                require_approval_for_writes: true,
                require_approval_for_apply: true,
            }
        );
        assert_eq!(merged.limits.max_retries_per_step, 2);
        assert_eq!(merged.limits.validation_retry_limit, 1);
    }

    #[test]
    fn allowlists_that_share_no_tool_allow_none() {
        let allowing = |text: &str| Guards {
            tool_allowlist: vec![tool(text)],
            ..Guards::default()
        };
        let merged = allowing("a/x").strictest(&allowing("a/y"));
        for name in ["a/x", "a/y", "a/z"] {
            let name = tool(name);
            let refused = merged.check(&GuardedCall {
                tool: &name,
                access: ToolAccess::ReadOnly,
                calls_so_far: 0,
                cost_so_far: 0.0,
                approval: Approval::Given,
            });
            assert!(
                matches!(
                    refused,
                    Err(GuardRefusal::Denied { .. } | GuardRefusal::NotAllowed { .. })
                ),
                "{name}: {refused:?}"
            );
        }
    }
}
