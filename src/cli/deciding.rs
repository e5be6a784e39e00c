//! How neighbors become labels.

use std::num::NonZeroUsize;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use classify::classifier::Classifier;
use classify::counts::Counts;
use classify::decide::Decision;
use classify::tune::Rule;
use classify::vote::Vote;

use super::failure::Failure;

/// How neighbors become labels.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Deciding")]
pub(crate) struct Deciding {
    /// How many neighbors vote [default: 30, or the model's]
    #[arg(short, value_name = "K")]
    k: Option<NonZeroUsize>,
    /// How much a vote counts: similarity, similarity^P, uniform, rank,
    /// exp or exp:BETA, each with /size^G or without [default: similarity]
    #[arg(long, value_name = "VOTE")]
    vote: Option<Vote>,
    /// One label a document, or several [default: as in the training corpus]
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Several labels: the share of the vote that a label needs [default: 0.4]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    threshold: Option<f64>,
    /// Several labels: give none where no label reaches the threshold
    #[arg(long)]
    allow_none: bool,
    /// Several labels: the rule that chooses them: threshold, rcut:N (the first N), mcut (those
    /// before the largest gap), pcut or pcut:FACTOR (for each label its share of all documents,
    /// which are held in memory); with --tune also scut, scut-fbr, scut-smoothed, rtcut, micromacro
    #[arg(long, value_name = "RULE", conflicts_with_all = ["threshold", "allow_none"])]
    rule: Option<RuleArgument>,
    /// Give no answer where the model is not sure: `target-error=5%` with --tune sets limits that
    /// leave so many wrong labels; `off` always answers [default: as the model does]
    #[arg(long, value_name = "WHAT")]
    abstain: Option<AbstainArgument>,
}

/// What the user has chosen, so that tuning does not.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fixed {
    pub(crate) k: Option<NonZeroUsize>,
    pub(crate) vote: Option<Vote>,
    pub(crate) rule: Option<Rule>,
    pub(crate) target_error: Option<f64>,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "not a number from 0 to 1".to_owned())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    Single,
    Multi,
}

/// `--abstain`
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum AbstainArgument {
    Off,
    TargetError(f64),
}

impl FromStr for AbstainArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let number =
            text.strip_prefix("target-error=").and_then(|share| match share.strip_suffix('%') {
                Some(percent) => percent.parse().map(|percent: f64| percent / 100.0).ok(),
                None => share.parse().ok(),
            });
        let target = number.filter(|share| (0.0..1.0).contains(share));
        target
            .map(Self::TargetError)
            .ok_or_else(|| "neither `off` nor a target like target-error=5%".to_owned())
    }
}

/// `--rule`: a rule, and the number that it may have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RuleArgument {
    rule: Rule,
    number: Option<f64>,
}

impl FromStr for RuleArgument {
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
            _ => return Err("no such rule: --help lists them".to_owned()),
        };
        let legal = |number: &f64| match rule {
            Rule::Rcut => *number >= 1.0 && number.fract() <= 0.0 && *number < 1e6,
            Rule::Pcut => *number > 0.0 && number.is_finite(),
            _ => false,
        };
        let number = match number {
            None => None,
            Some(number) => match number.parse().ok().filter(legal) {
                Some(number) => Some(number),
                None => return Err("rcut takes a count like rcut:2, pcut a factor above 0".into()),
            },
        };
        Ok(Self { rule, number })
    }
}

impl RuleArgument {
    /// The rule, for tuning.
    pub(crate) fn without_number(self) -> Result<Rule, Failure> {
        if self.number.is_some() {
            let message = "the number of a --rule is what tuning chooses: leave it out";
            return Err(Failure::Usage(message.into()));
        }
        Ok(self.rule)
    }

    /// The decision, where it needs no tuning; `shares` are those of the labels in training.
    fn decision(self, shares: impl FnOnce() -> Vec<f64>) -> Result<Decision, Failure> {
        match (self.rule, self.number) {
            (Rule::Threshold, _) => {
                Ok(Decision::Multi { threshold: Decision::THRESHOLD, allow_none: false })
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a count, checked when it was read"
            )]
            (Rule::Rcut, Some(labels)) => Ok(Decision::First { labels: labels as usize }),
            (Rule::Rcut, None) => {
                Err(Failure::Usage("--rule rcut: how many labels? rcut:2, or --tune".into()))
            }
            (Rule::Mcut, _) => Ok(Decision::LargestGap),
            (Rule::Pcut, factor) => {
                let factor = factor.unwrap_or(1.0);
                Ok(Decision::Proportional { factor, shares: shares() })
            }
            _ => {
                let message = "this --rule learns thresholds: it goes with --tune";
                Err(Failure::Usage(message.into()))
            }
        }
    }
}

/// Refuses to use limits of abstaining with other votes or decisions than they were learnt from.
fn same_limits(classifier: &Classifier<'_>) -> Result<(), Failure> {
    let settings = classifier.model().settings();
    let same = classifier.k == settings.k
        && classifier.vote == settings.vote
        && classifier.decision == settings.decision;
    if classifier.abstention.is_some() && !same {
        let message = "this model abstains by limits that were learnt for its own k, vote and rule: \
                       add --abstain off to change these";
        return Err(Failure::Usage(message.into()));
    }
    Ok(())
}

fn shares(sizes: &[u32], documents: usize) -> Vec<f64> {
    sizes.iter().map(|&size| f64::from(size) / documents.max(1) as f64).collect()
}

impl Deciding {
    pub(crate) fn k(&self) -> Option<NonZeroUsize> {
        self.k
    }

    pub(crate) fn vote(&self) -> Option<Vote> {
        self.vote
    }

    /// Refuses `--mode single` beside what is for several labels.
    pub(crate) fn refuse_single(&self, beside: &str) -> Result<(), Failure> {
        if self.mode == Some(Mode::Single) {
            let message = format!("--mode single and {beside}, which is for several labels");
            return Err(Failure::Usage(message));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Failure> {
        for (said, flag) in [
            (self.rule.is_some(), "--rule"),
            (self.threshold.is_some(), "--threshold"),
            (self.allow_none, "--allow-none"),
        ] {
            if said {
                self.refuse_single(flag)?;
            }
        }
        Ok(())
    }

    /// What tuning has to keep.
    pub(crate) fn fixed(&self) -> Result<Fixed, Failure> {
        self.check()?;
        if self.threshold.is_some() || self.allow_none {
            let message = "--threshold and --allow-none are what --tune chooses: leave one out";
            return Err(Failure::Usage(message.into()));
        }
        let rule = self.rule.map(RuleArgument::without_number).transpose()?;
        let target_error = match self.abstain {
            Some(AbstainArgument::TargetError(target)) => Some(target),
            Some(AbstainArgument::Off) | None => None,
        };
        Ok(Fixed { k: self.k, vote: self.vote, rule, target_error })
    }

    /// Whether documents get several labels, in a corpus that has, or has not, such documents.
    pub(crate) fn several(&self, several: bool) -> bool {
        match self.mode {
            Some(mode) => mode == Mode::Multi,
            None => several || self.threshold.is_some() || self.allow_none || self.rule.is_some(),
        }
    }

    /// The decision for a corpus, without tuning.
    pub(crate) fn for_corpus(&self, counts: &Counts) -> Result<Decision, Failure> {
        self.check()?;
        if !self.several(counts.has_several_labels()) {
            return Ok(Decision::Single);
        }
        if let Some(rule) = self.rule {
            return rule.decision(|| shares(&counts.label_sizes(), counts.documents()));
        }
        let threshold = self.threshold.unwrap_or(Decision::THRESHOLD);
        Ok(Decision::Multi { threshold, allow_none: self.allow_none })
    }

    /// Refuses what only tuning listens to.
    pub(crate) fn refuse_learning(&self) -> Result<(), Failure> {
        if matches!(self.abstain, Some(AbstainArgument::TargetError(_))) {
            let message = "--abstain target-error=… is learnt by tuning: it goes with --tune, or \
                           with `classify tune MODEL`";
            return Err(Failure::Usage(message.into()));
        }
        Ok(())
    }

    /// Changes a trained classifier as far as the flags say.
    pub(crate) fn change(&self, classifier: &mut Classifier<'_>) -> Result<(), Failure> {
        self.check()?;
        if let Some(k) = self.k {
            classifier.k = k;
        }
        if let Some(vote) = self.vote {
            classifier.vote = vote;
        }
        if self.abstain == Some(AbstainArgument::Off) {
            classifier.abstention = None;
        }
        if let Some(rule) = self.rule {
            let model = classifier.model();
            classifier.decision =
                rule.decision(|| shares(model.label_sizes(), model.ids().len()))?;
            return same_limits(classifier);
        }
        let (threshold, allow_none) = match &classifier.decision {
            &Decision::Multi { threshold, allow_none } => (threshold, allow_none),
            _ => (Decision::THRESHOLD, false),
        };
        let multi = Decision::Multi {
            threshold: self.threshold.unwrap_or(threshold),
            allow_none: self.allow_none || allow_none,
        };
        let said_multi = self.threshold.is_some() || self.allow_none;
        match self.mode {
            Some(Mode::Single) => classifier.decision = Decision::Single,
            Some(Mode::Multi) if !classifier.decision.is_multi() => classifier.decision = multi,
            _ if said_multi => classifier.decision = multi,
            _ => {}
        }
        same_limits(classifier)
    }

    /// Changes a classifier of a model that was just trained by these flags: its rule, and the
    /// number of it, may have been tuned.
    pub(crate) fn change_trained(&self, classifier: &mut Classifier<'_>) {
        if self.abstain == Some(AbstainArgument::Off) {
            classifier.abstention = None;
        }
    }
}
