//! Targets: what `bench/targets.toml` asks for, and whether a figure meets it.

use crate::metrics::{Measurement, Metric};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The targets that this program was built with.
const TEXT: &str = include_str!("../targets.toml");

/// A bound on a metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Target {
    /// value / ceiling is at most this.
    RatioMax(f64),
    /// value / ceiling is at least this.
    RatioMin(f64),
    /// The value itself is at most this.
    ValueMax(f64),
    /// The value itself is at least this.
    ValueMin(f64),
    /// One of two bounds is kept.
    Either(Budget),
}

/// A bound relative to the ceiling, and a value that is good enough wherever the ceiling is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// value / ceiling is at most this.
    pub ratio_max: f64,
    /// Or the value itself is at most this.
    pub value_max: f64,
}

impl Target {
    /// Whether a figure meets it. A figure that is not comparable (no ceiling, not a number) does not.
    pub fn met(self, value: f64, ratio: Option<f64>) -> bool {
        match self {
            Target::RatioMax(bound) => ratio.is_some_and(|ratio| ratio <= bound),
            Target::RatioMin(bound) => ratio.is_some_and(|ratio| ratio >= bound),
            Target::ValueMax(bound) => value <= bound,
            Target::ValueMin(bound) => value >= bound,
            Target::Either(Budget { ratio_max, value_max }) => {
                Target::RatioMax(ratio_max).met(value, ratio) || Target::ValueMax(value_max).met(value, ratio)
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Target::RatioMax(bound) => format!("<= {bound} x"),
            Target::RatioMin(bound) => format!(">= {bound} x"),
            Target::ValueMax(bound) => format!("<= {bound}"),
            Target::ValueMin(bound) => format!(">= {bound}"),
            Target::Either(Budget { ratio_max, value_max }) => format!("<= {ratio_max} x or <= {value_max}"),
        };
        f.pad(&text)
    }
}

/// All targets, by scenario, case and metric.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Targets(BTreeMap<String, BTreeMap<String, BTreeMap<Metric, Target>>>);

/// Targets that cannot be held against a run.
#[derive(Debug, thiserror::Error)]
pub enum TargetsError {
    /// The file does not parse.
    #[error("bench/targets.toml: {0}")]
    Parse(#[from] toml::de::Error),
    /// No scenario has this name.
    #[error("bench/targets.toml asks for scenario {0:?}, which does not exist: see --list")]
    UnknownScenario(String),
    /// A scenario ran and did not produce what a target is about.
    #[error(
        "bench/targets.toml asks for {metric} of {scenario}, {case}, which the run did not produce: correct the case or the metric"
    )]
    NotProduced {
        /// The scenario.
        scenario: String,
        /// The case.
        case: String,
        /// The metric.
        metric: Metric,
    },
}

impl Targets {
    /// The targets that this program was built with.
    ///
    /// # Errors
    /// The file does not parse, or names a scenario that is not among `scenarios`.
    pub fn load(scenarios: &[&str]) -> Result<Targets, TargetsError> {
        Targets::parse(TEXT, scenarios)
    }

    fn parse(text: &str, scenarios: &[&str]) -> Result<Targets, TargetsError> {
        let targets: Targets = toml::from_str(text)?;
        match targets.0.keys().find(|name| !scenarios.contains(&name.as_str())) {
            Some(name) => Err(TargetsError::UnknownScenario(name.clone())),
            None => Ok(targets),
        }
    }

    /// The target of one figure.
    pub fn of(&self, scenario: &str, case: &str, metric: Metric) -> Option<Target> {
        self.0.get(scenario)?.get(case)?.get(&metric).copied()
    }

    /// Refuses targets of a scenario that ran which no measurement answers: a target that nothing measures would
    /// always look met.
    ///
    /// # Errors
    /// The first of them.
    pub fn all_produced<'a>(
        &self,
        ran: &[&str],
        measured: impl Iterator<Item = &'a Measurement>,
    ) -> Result<(), TargetsError> {
        let measured: Vec<_> = measured.collect();
        for (scenario, cases) in self.0.iter().filter(|(name, _)| ran.contains(&name.as_str())) {
            for (case, metrics) in cases {
                for &metric in metrics.keys() {
                    if !measured.iter().any(|m| m.scenario == scenario && m.case == *case && m.metric == metric) {
                        let (scenario, case) = (scenario.clone(), case.clone());
                        return Err(TargetsError::NotProduced { scenario, case, metric });
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIOS: [&str; 2] = ["append-latency", "read-cold"];

    fn parse(text: &str) -> Result<Targets, TargetsError> {
        Targets::parse(text, &SCENARIOS)
    }

    fn measured(metric: Metric) -> Measurement {
        Measurement { scenario: "read-cold", case: "1 reader".into(), metric, value: 1.0, ceiling: None }
    }

    #[test]
    fn each_kind_of_bound_is_met_up_to_its_edge_and_not_past_it() {
        assert!(Target::RatioMax(1.3).met(9.0, Some(1.3)));
        assert!(!Target::RatioMax(1.3).met(9.0, Some(1.31)));
        assert!(Target::RatioMin(0.85).met(9.0, Some(0.85)));
        assert!(!Target::RatioMin(0.85).met(9.0, Some(0.84)));
        assert!(Target::ValueMax(2.0).met(2.0, None));
        assert!(!Target::ValueMax(2.0).met(2.01, Some(0.1)));
        assert!(Target::ValueMin(2.0).met(2.0, None));
        assert!(!Target::ValueMin(2.0).met(1.99, Some(9.0)));
        let either = Target::Either(Budget { ratio_max: 2.0, value_max: 1_000.0 });
        assert!(either.met(4_000.0, Some(2.0)) && either.met(1_000.0, Some(9.0)) && either.met(1_000.0, None));
        assert!(!either.met(1_001.0, Some(2.01)) && !either.met(1_001.0, None));
    }

    #[test]
    fn a_figure_that_cannot_be_compared_meets_nothing() {
        assert!(!Target::RatioMax(1.3).met(1.0, None));
        assert!(!Target::RatioMin(0.85).met(1.0, Some(f64::NAN)));
        assert!(!Target::ValueMax(2.0).met(f64::NAN, None));
        assert!(!Target::ValueMin(2.0).met(f64::NAN, None));
        assert!(!Target::Either(Budget { ratio_max: 2.0, value_max: 1.0 }).met(f64::NAN, None));
    }

    #[test]
    fn the_file_that_is_built_in_parses() {
        let names = crate::scenario::Scenario::ALL.map(crate::scenario::Scenario::name);
        let targets = Targets::load(&names).expect("bench/targets.toml");
        assert_eq!(targets.of("append-latency", "1 KiB", Metric::P50), Some(Target::RatioMax(1.2)));
        assert_eq!(targets.of("append-latency", "2 KiB", Metric::P50), None);
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        let refusal = |text: &str| parse(text).expect_err("a refusal").to_string();
        assert!(refusal("[read-cold.x]\np51_us = { ratio_max = 1 }").contains("p51_us"));
        assert!(refusal("[read-cold.x]\np50_us = { ratio_mux = 1 }").contains("ratio_mux"));
        assert!(refusal("[read-cold.x]\np50_us = { ratio_max = 1, value_max = 2 }").contains("targets.toml"));
        assert!(refusal("[read-cold.x]\np50_us = {}").contains("targets.toml"));
        assert!(refusal("[read-warm.x]\np50_us = { ratio_max = 1.0 }").contains("read-warm"));
    }

    #[test]
    fn a_target_that_nothing_measured_is_an_error_if_its_scenario_ran() {
        let targets = parse("[read-cold.'1 reader']\nmib_per_second = { ratio_min = 0.85 }").expect("targets");
        targets.all_produced(&["read-cold"], [measured(Metric::MibPerSecond)].iter()).expect("produced");
        targets.all_produced(&["append-latency"], [].iter()).expect("its scenario did not run");
        let error = targets.all_produced(&["read-cold"], [measured(Metric::P50)].iter()).expect_err("not produced");
        assert!(error.to_string().contains("mib_per_second of read-cold, 1 reader"));
    }
}
