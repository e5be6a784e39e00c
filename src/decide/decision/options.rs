//! The options of a decision that a caller can set. The corpus or the model determines the rest.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Decision, ThresholdRule};

/// A multi-label decision rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// One threshold for all labels.
    Threshold,
    /// [`ThresholdRule::Scut`].
    Scut,
    /// [`ThresholdRule::ScutFbr`].
    ScutFbr,
    /// [`ThresholdRule::ScutSmoothed`].
    ScutSmoothed,
    /// [`ThresholdRule::Rtcut`].
    Rtcut,
    /// [`ThresholdRule::Micromacro`].
    Micromacro,
    /// The labels with the highest scores, a fixed number per document.
    Rcut,
    /// The labels of each document before the largest gap between two scores.
    Mcut,
    /// The documents with the highest scores for each label; only for whole batches.
    Pcut,
}

impl From<ThresholdRule> for Rule {
    fn from(rule: ThresholdRule) -> Self {
        match rule {
            ThresholdRule::Scut => Self::Scut,
            ThresholdRule::ScutFbr => Self::ScutFbr,
            ThresholdRule::ScutSmoothed => Self::ScutSmoothed,
            ThresholdRule::Rtcut => Self::Rtcut,
            ThresholdRule::Micromacro => Self::Micromacro,
        }
    }
}

/// A rule and its optional number, such as `rcut:2` (two labels per document) or `pcut:1.2` (a
/// factor of 1.2).
///
/// ```
/// use classify::decide::decision::{Rule, RuleOption};
///
/// let first_two: RuleOption = "rcut:2".parse().unwrap();
/// assert_eq!(first_two.rule, Rule::Rcut);
/// assert!("scut:2".parse::<RuleOption>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RuleOption {
    /// The rule.
    pub rule: Rule,
    /// The number, if one is given.
    pub number: Option<f64>,
}

impl FromStr for RuleOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, number) = text.split_once(':').map_or((text, None), |(n, x)| (n, Some(x)));
        let rule = match name {
            "threshold" => Rule::Threshold,
            "scut" => Rule::Scut,
            "scut-fbr" => Rule::ScutFbr,
            "scut-smoothed" => Rule::ScutSmoothed,
            "rtcut" => Rule::Rtcut,
            "micromacro" => Rule::Micromacro,
            "rcut" => Rule::Rcut,
            "mcut" => Rule::Mcut,
            "pcut" => Rule::Pcut,
            _ => {
                let known = "threshold, scut, scut-fbr, scut-smoothed, rtcut, micromacro, rcut, \
                             rcut:N, mcut, pcut or pcut:FACTOR";
                return Err(format!("no such rule; use {known}"));
            }
        };
        let is_valid = |number: &f64| match rule {
            Rule::Rcut => *number >= 1.0 && number.fract() <= 0.0 && *number < 1e6,
            _ => *number > 0.0 && number.is_finite(),
        };
        let number = match number {
            None => None,
            Some(_) if !matches!(rule, Rule::Rcut | Rule::Pcut) => {
                return Err(format!("{name} takes no number; rcut and pcut do, such as rcut:2"));
            }
            Some(number) => match number.parse().ok().filter(is_valid) {
                Some(number) => Some(number),
                None => return Err("expected a count (rcut:2) or a factor (pcut:1.2)".into()),
            },
        };
        Ok(Self { rule, number })
    }
}

impl RuleOption {
    /// Returns the rule for tuning, which chooses the number.
    ///
    /// # Errors
    /// Fails if a number was given.
    pub fn tuned(self) -> Result<Rule, DecisionError> {
        if self.number.is_some() { Err(DecisionError::NumberIsTuned) } else { Ok(self.rule) }
    }

    /// Returns the decision for a rule that needs no tuning. `shares` returns the share of the
    /// training documents with each label.
    fn decision(self, shares: impl FnOnce() -> Vec<f64>) -> Result<Decision, DecisionError> {
        match (self.rule, self.number) {
            (Rule::Threshold, _) => {
                Ok(Decision::Multi { threshold: Decision::THRESHOLD, allow_none: false })
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a count, checked when it was parsed"
            )]
            (Rule::Rcut, Some(labels)) => Ok(Decision::First { labels: labels as usize }),
            (Rule::Rcut, None) => Err(DecisionError::NumberMissing),
            (Rule::Mcut, _) => Ok(Decision::LargestGap),
            (Rule::Pcut, factor) => {
                let factor = factor.unwrap_or(1.0);
                Ok(Decision::Proportional { factor, shares: shares() })
            }
            _ => Err(DecisionError::NeedsTuning),
        }
    }
}

/// An option that applies to multi-label decisions only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MultiLabelOption {
    /// [`DecisionOptions::rule`].
    Rule,
    /// [`DecisionOptions::threshold`].
    Threshold,
    /// [`DecisionOptions::allow_none`].
    AllowNone,
    /// The hierarchy of labels.
    Hierarchy,
}

impl fmt::Display for MultiLabelOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rule => "rule",
            Self::Threshold => "threshold",
            Self::AllowNone => "allow_none",
            Self::Hierarchy => "hierarchy",
        })
    }
}

/// A conflict between the options of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecisionError {
    /// A single-label decision was requested together with a multi-label option.
    #[error("{option} is for multi-label decisions and conflicts with one label per document")]
    SingleLabelConflict {
        /// The option.
        option: MultiLabelOption,
    },
    /// A multi-label option was set, but every training document has one label.
    #[error("{option} is for several labels per document, but every training document has one")]
    SingleLabels {
        /// The option.
        option: MultiLabelOption,
    },
    /// A rule was set together with an option that it replaces.
    #[error("rule conflicts with {option}")]
    RuleConflict {
        /// The option.
        option: MultiLabelOption,
    },
    /// The threshold was set, but tuning chooses it.
    #[error("tuning chooses the threshold: do not set threshold or allow_none")]
    ThresholdIsTuned,
    /// The number of the rule was set, but tuning chooses it.
    #[error("tuning chooses the number of the rule: do not set it")]
    NumberIsTuned,
    /// The rule needs a number.
    #[error("the rule rcut needs the number of labels, such as rcut:2, or tuning")]
    NumberMissing,
    /// The rule learns thresholds, which needs tuning.
    #[error("this rule learns thresholds, which needs tuning")]
    NeedsTuning,
    /// `allow_none` was set, but the decision has no threshold.
    #[error("allow_none needs a threshold, which this model's decision lacks: set one")]
    NoThreshold,
}

/// The options of a decision that a caller can set. By default, none is set.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DecisionOptions {
    /// Whether a document may have several labels. If `None`, the training corpus determines this.
    pub multi_label: Option<bool>,
    /// The multi-label rule.
    pub rule: Option<RuleOption>,
    /// The share of the vote that a label needs.
    pub threshold: Option<f64>,
    /// Whether a document may have no label if none reaches its threshold.
    pub allow_none: bool,
}

impl DecisionOptions {
    /// Whether a document may have several labels. `is_multi_label_corpus` is true if the training
    /// corpus has documents with several labels.
    pub fn is_multi_label(&self, is_multi_label_corpus: bool) -> bool {
        self.multi_label.unwrap_or(is_multi_label_corpus)
    }

    /// Returns an error if a multi-label option is combined with a single-label decision.
    ///
    /// # Errors
    /// Fails if these options request one label per document.
    pub fn reject_single_label(&self, option: MultiLabelOption) -> Result<(), DecisionError> {
        if self.multi_label == Some(false) {
            Err(DecisionError::SingleLabelConflict { option })
        } else {
            Ok(())
        }
    }

    /// Rejects options that conflict with each other or with one label per document.
    /// `is_multi_label_corpus` is true if the training corpus has documents with several labels.
    fn check(&self, is_multi_label_corpus: bool) -> Result<(), DecisionError> {
        for (given, option) in [
            (self.rule.is_some(), MultiLabelOption::Rule),
            (self.threshold.is_some(), MultiLabelOption::Threshold),
            (self.allow_none, MultiLabelOption::AllowNone),
        ] {
            if given {
                self.reject_single_label(option)?;
                if !self.is_multi_label(is_multi_label_corpus) {
                    return Err(DecisionError::SingleLabels { option });
                }
            }
        }
        match (self.rule, self.threshold) {
            (Some(_), Some(_)) => {
                Err(DecisionError::RuleConflict { option: MultiLabelOption::Threshold })
            }
            (Some(_), None) if self.allow_none => {
                Err(DecisionError::RuleConflict { option: MultiLabelOption::AllowNone })
            }
            _ => Ok(()),
        }
    }

    /// Returns the rule that tuning must use, if one is set. `is_multi_label_corpus` is true if the
    /// training corpus has documents with several labels.
    ///
    /// # Errors
    /// Fails if these options set a value that tuning chooses, or conflict with each other or with
    /// the corpus.
    pub fn tuned_rule(&self, is_multi_label_corpus: bool) -> Result<Option<Rule>, DecisionError> {
        self.check(is_multi_label_corpus)?;
        if self.threshold.is_some() || self.allow_none {
            return Err(DecisionError::ThresholdIsTuned);
        }
        self.rule.map(RuleOption::tuned).transpose()
    }

    /// Returns the decision without tuning. `is_multi_label_corpus` is true if the training corpus
    /// has documents with several labels. `shares` returns the share of its documents with each
    /// label.
    ///
    /// # Errors
    /// Fails if the options conflict or need tuning.
    pub fn decision(
        &self,
        is_multi_label_corpus: bool,
        shares: impl FnOnce() -> Vec<f64>,
    ) -> Result<Decision, DecisionError> {
        self.check(is_multi_label_corpus)?;
        if !self.is_multi_label(is_multi_label_corpus) {
            return Ok(Decision::Single);
        }
        if let Some(rule) = self.rule {
            return rule.decision(shares);
        }
        let threshold = self.threshold.unwrap_or(Decision::THRESHOLD);
        Ok(Decision::Multi { threshold, allow_none: self.allow_none })
    }

    /// Returns a model's decision, overridden by these options. Learned values are kept if
    /// possible.
    ///
    /// # Errors
    /// Fails if the options conflict with each other or with the model's decision, or need tuning.
    pub fn change(
        &self,
        decision: &Decision,
        shares: impl FnOnce() -> Vec<f64>,
    ) -> Result<Decision, DecisionError> {
        self.check(decision.is_multi())?;
        if let Some(rule) = self.rule {
            return rule.decision(shares);
        }
        if !self.is_multi_label(decision.is_multi()) {
            return Ok(Decision::Single);
        }
        let given = (self.threshold, self.allow_none);
        Ok(match (decision, given) {
            (Decision::Single, (threshold, allow_none)) => {
                let threshold = threshold.unwrap_or(Decision::THRESHOLD);
                Decision::Multi { threshold, allow_none }
            }
            (kept, (None, false)) => kept.clone(),
            (&Decision::Multi { threshold, allow_none: none }, (given, allow_none)) => {
                let threshold = given.unwrap_or(threshold);
                Decision::Multi { threshold, allow_none: none || allow_none }
            }
            (Decision::PerLabel { allow_none: none, .. }, (Some(threshold), allow_none)) => {
                Decision::Multi { threshold, allow_none: *none || allow_none }
            }
            (Decision::PerLabel { rule, thresholds, .. }, (None, true)) => {
                let thresholds = thresholds.clone();
                Decision::PerLabel { rule: *rule, thresholds, allow_none: true }
            }
            (_, (Some(threshold), allow_none)) => Decision::Multi { threshold, allow_none },
            (_, (None, true)) => return Err(DecisionError::NoThreshold),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(allow_none: bool) -> Decision {
        let thresholds = vec![Some(0.2), None];
        Decision::PerLabel { rule: ThresholdRule::Scut, thresholds, allow_none }
    }

    fn changed(options: DecisionOptions, decision: &Decision) -> Result<Decision, DecisionError> {
        options.change(decision, || vec![0.5, 0.5])
    }

    const NONE: DecisionOptions =
        DecisionOptions { multi_label: None, rule: None, threshold: None, allow_none: false };

    #[test]
    fn learned_thresholds_are_kept() {
        assert_eq!(changed(NONE, &learned(false)), Ok(learned(false)));
        let allow_none = DecisionOptions { allow_none: true, ..NONE };
        assert_eq!(changed(allow_none, &learned(false)), Ok(learned(true)));
        let threshold = DecisionOptions { threshold: Some(0.3), ..NONE };
        let flat = Decision::Multi { threshold: 0.3, allow_none: true };
        assert_eq!(changed(threshold, &learned(true)), Ok(flat));
    }

    #[test]
    fn options_change_every_decision() {
        let multi = |threshold, allow_none| Decision::Multi { threshold, allow_none };
        let allow_none = DecisionOptions { allow_none: true, ..NONE };
        let threshold = DecisionOptions { threshold: Some(0.3), ..NONE };
        let several = DecisionOptions { multi_label: Some(true), ..NONE };
        let single = DecisionOptions { multi_label: Some(false), ..NONE };
        assert_eq!(changed(NONE, &Decision::Single), Ok(Decision::Single));
        assert_eq!(changed(several, &Decision::Single), Ok(multi(0.4, false)));
        let option = MultiLabelOption::AllowNone;
        assert_eq!(
            changed(allow_none, &Decision::Single),
            Err(DecisionError::SingleLabels { option })
        );
        let both = DecisionOptions { multi_label: Some(true), ..allow_none };
        assert_eq!(changed(both, &Decision::Single), Ok(multi(0.4, true)));
        assert_eq!(changed(allow_none, &multi(0.2, false)), Ok(multi(0.2, true)));
        assert_eq!(changed(threshold, &multi(0.2, true)), Ok(multi(0.3, true)));
        assert_eq!(changed(single, &multi(0.2, true)), Ok(Decision::Single));
        assert_eq!(changed(several, &Decision::LargestGap), Ok(Decision::LargestGap));
        assert_eq!(changed(threshold, &Decision::LargestGap), Ok(multi(0.3, false)));
        assert_eq!(changed(allow_none, &Decision::LargestGap), Err(DecisionError::NoThreshold));
    }

    #[test]
    fn conflicting_options_are_rejected() {
        let rule = |text: &str| Some(text.parse::<RuleOption>().unwrap());
        let both = DecisionOptions { rule: rule("mcut"), threshold: Some(0.3), ..NONE };
        assert!(both.decision(true, Vec::new).is_err());
        let single = DecisionOptions { multi_label: Some(false), threshold: Some(0.3), ..NONE };
        assert!(single.decision(true, Vec::new).is_err());
        let scut = DecisionOptions { rule: rule("scut"), ..NONE };
        assert_eq!(scut.decision(true, Vec::new), Err(DecisionError::NeedsTuning));
        assert_eq!(scut.tuned_rule(true), Ok(Some(Rule::Scut)));
        let two = DecisionOptions { rule: rule("rcut:2"), ..NONE };
        assert_eq!(two.decision(true, Vec::new), Ok(Decision::First { labels: 2 }));
        assert!(two.decision(false, Vec::new).is_err());
        assert_eq!(two.tuned_rule(true), Err(DecisionError::NumberIsTuned));
        let threshold = DecisionOptions { threshold: Some(0.3), ..NONE };
        assert_eq!(threshold.tuned_rule(true), Err(DecisionError::ThresholdIsTuned));
    }
}
