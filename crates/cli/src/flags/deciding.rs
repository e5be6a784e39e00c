//! Decision flags: how neighbors become labels.

use std::num::NonZeroUsize;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use classify::classifier::ClassifyOptions;
use classify::decide::decision::{DecisionOptions, RuleOption};
use classify::decide::vote::Vote;
use classify::learn::TrainError;
use classify::model::Model;

use crate::failure::Failure;

/// Flags for the vote and the decision rule.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Deciding")]
pub(crate) struct DecisionFlags {
    /// The number of neighbors that vote [default: chosen in training]
    #[arg(short, alias = "k", value_name = "K", value_parser = crate::flags::positive::positive)]
    k: Option<NonZeroUsize>,
    /// The weight of a vote: similarity, similarity^P, uniform, rank, exp or exp:BETA, each
    /// optionally followed by /size^G. With --tune also `learned`: a learned weight for each
    /// training document [default: chosen in training]
    #[arg(long, value_name = "VOTE")]
    vote: Option<Vote>,
    /// One label per document, or any number [default: as in training]
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Multi-label: the share of the vote that a label needs [default: chosen in training]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    threshold: Option<f64>,
    /// Multi-label: allow documents without labels, if no label reaches its threshold
    #[arg(long)]
    allow_none: bool,
    /// Multi-label: the rule that selects labels: threshold, rcut:N (the N best labels), mcut (the
    /// labels before the largest gap), pcut or pcut:FACTOR (for each label, its share of the
    /// training documents; keeps all documents in memory). With --tune also scut, scut-fbr,
    /// scut-smoothed, rtcut, micromacro
    #[arg(long, value_name = "RULE", conflicts_with_all = ["threshold", "allow_none"])]
    rule: Option<RuleOption>,
    /// When to abstain. With --tune, `target-error=5%` learns a confidence limit that leaves at
    /// most 5 % wrong labels. `foreign=5%` learns to refuse out-of-distribution (novel) documents,
    /// which have none of the labels; it refuses at most 5 % of the other documents by mistake.
    /// Separate both with a comma. `off` never abstains [default: as in the model]
    #[arg(long, value_name = "WHAT")]
    abstain: Option<AbstainArgument>,
    /// With terms and dense vectors: the share of the vector neighbors in the votes, from 0 to 1
    /// [default: 0.5, chosen by --tune, or from the model]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    dense_share: Option<f64>,
}

pub(crate) fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    Single,
    Multi,
}

impl Mode {
    pub(crate) fn is_multi(self) -> bool {
        self == Self::Multi
    }
}

/// The value of `--abstain`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum AbstainArgument {
    Off,
    Targets(AbstentionTargets),
}

/// Target shares for which tuning learns the abstention limits.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct AbstentionTargets {
    /// The target share of wrong labels.
    pub(crate) error: Option<f64>,
    /// The target share of known documents refused as out of distribution.
    pub(crate) novelty: Option<f64>,
}

impl AbstainArgument {
    pub(crate) fn targets(self) -> AbstentionTargets {
        match self {
            Self::Off => AbstentionTargets::default(),
            Self::Targets(targets) => targets,
        }
    }
}

impl FromStr for AbstainArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let invalid = || {
            "expected `off`, target-error=5%, foreign=5% (out-of-distribution documents), or both \
             targets with a comma between them"
                .to_owned()
        };
        let mut error = None;
        let mut novelty = None;
        for part in text.split(',') {
            let (name, share) = part.split_once('=').ok_or_else(invalid)?;
            let number = match share.strip_suffix('%') {
                Some(percent) => percent.parse().map(|percent: f64| percent / 100.0).ok(),
                None => share.parse().ok(),
            };
            let target = number.filter(|share| (0.0..1.0).contains(share)).ok_or_else(invalid)?;
            let target_of_name = match name {
                "target-error" => &mut error,
                "foreign" => &mut novelty,
                _ => return Err(invalid()),
            };
            if target_of_name.replace(target).is_some() {
                return Err(format!("{name} is given twice"));
            }
        }
        Ok(Self::Targets(AbstentionTargets { error, novelty }))
    }
}

impl DecisionFlags {
    pub(crate) fn k(&self) -> Option<NonZeroUsize> {
        self.k
    }

    pub(crate) fn vote(&self) -> Option<Vote> {
        self.vote
    }

    pub(crate) fn dense_share(&self) -> Option<f64> {
        self.dense_share
    }

    pub(crate) fn abstention_targets(&self) -> AbstentionTargets {
        self.abstain.map(AbstainArgument::targets).unwrap_or_default()
    }

    /// Returns the decision options that the flags set.
    pub(crate) fn options(&self) -> DecisionOptions {
        DecisionOptions {
            multi_label: self.mode.map(Mode::is_multi),
            rule: self.rule,
            threshold: self.threshold,
            allow_none: self.allow_none,
        }
    }

    /// Rejects flags that have an effect only during tuning.
    pub(crate) fn refuse_learning(&self) -> Result<(), Failure> {
        if self.abstention_targets() == AbstentionTargets::default() {
            return Ok(());
        }
        Err(TrainError::AbstainNeedsTuning.into())
    }

    /// Returns the options of the model, overridden by the flags that are set.
    pub(crate) fn change(&self, model: &Model) -> Result<ClassifyOptions, Failure> {
        let mut options = ClassifyOptions::of(model);
        if let Some(share) = self.dense_share {
            if !model.searches_both() {
                let message = "--dense-share: this model does not search both terms and dense \
                               vectors; `classify info MODEL` shows its features";
                return Err(Failure::Usage(message.into()));
            }
            options.dense_share = share;
        }
        options.decision = self.options().change(&options.decision, || model.label_shares())?;
        options.k = self.k.unwrap_or(options.k);
        options.vote = match self.vote {
            Some(Vote::LEARNED) if options.vote.learned => options.vote,
            Some(vote) if vote.learned && model.learned_votes().is_none() => {
                let message = "--vote learned: this model has no learned votes; learn them with \
                               --tune or `classify tune MODEL`";
                return Err(Failure::Usage(message.into()));
            }
            Some(vote) if vote.prototypes > 0.0 && model.prototypes().is_none() => {
                let message = "--vote: this model has no prototypes; learn them with --tune or \
                               `classify tune MODEL`";
                return Err(Failure::Usage(message.into()));
            }
            vote => vote.unwrap_or(options.vote),
        };
        let options = self.without_abstaining(options);
        if !options.fits_abstention_of(model) {
            let message = "this model abstains by limits learned for its k, vote and rule; to \
                           change these, add --abstain off";
            return Err(Failure::Usage(message.into()));
        }
        Ok(options)
    }

    /// Returns the options of a model that was just trained with these flags. Only the abstention
    /// options can differ from the model's.
    pub(crate) fn change_trained(&self, model: &Model) -> ClassifyOptions {
        self.without_abstaining(ClassifyOptions::of(model))
    }

    fn without_abstaining(&self, options: ClassifyOptions) -> ClassifyOptions {
        match self.abstain {
            Some(AbstainArgument::Off) => {
                ClassifyOptions { abstention: None, novelty: None, ..options }
            }
            _ => options,
        }
    }
}
