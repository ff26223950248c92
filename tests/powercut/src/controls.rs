//! Controls: deliberate defects that power cuts and faults must notice, each as what the table says. The table is that of all tiers.

use crate::error::{Trouble, system};
use crate::faults;
use crate::interrupt::Interrupt;
use crate::options::{Options, Other};
use crate::run::Run;
use crate::shape::Defect;
use clap::{Args, Parser, ValueEnum};
use std::collections::BTreeSet;
use std::time::Instant;
use strandline_tests::tiers::controls::{self, By, Control, Tier};
use strandline_tests::tiers::promise::Promise;

/// Which controls.
#[derive(Clone, Debug, Args)]
pub struct ControlOptions {
    /// Decides what each run does.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Runs every row of the table that is for this program. True when each defect was noticed as what it is.
///
/// # Errors
/// What keeps a run from going on.
pub fn run(options: &ControlOptions) -> Result<bool, Trouble> {
    let mut all = true;
    println!("| defect | tier | verdict | seconds | of |\n|---|---|---|---|---|");
    for control in controls::table() {
        let Some(arguments) = arguments(&control, options.seed) else { continue };
        let since = Instant::now();
        let verdict = match noticed(&arguments, &control)? {
            Ok(how) => how,
            Err(why) => {
                all = false;
                format!("MISSED: {why}")
            }
        };
        let (seconds, tier) = (since.elapsed().as_secs_f64(), control.tier());
        println!("| {} | {tier:?} | {verdict} | {seconds:.1} | {} |", control.defect, arguments[1..].join(" "));
    }
    Ok(all)
}

/// The command line that is a row; none where it is for somebody else.
fn arguments(control: &Control, seed: u64) -> Option<Vec<String>> {
    let defect = |defect: &Defect| controls::Defect::Engine(defect.engine()) == control.defect;
    let mut words: Vec<String> = match control.by {
        By::PowerCuts { cuts, mode } => {
            let mode = mode.map_or(Vec::new(), |mode| vec!["--mode".to_owned(), mode.to_owned()]);
            ["--fs", "ext4", "--cuts", &cuts.to_string()].map(str::to_owned).into_iter().chain(mode).collect()
        }
        By::FaultsBelow { cases } => ["faults", "--cases", &cases.to_string()].map(str::to_owned).to_vec(),
        _ => return None,
    };
    let sabotage = Defect::value_variants().iter().find(|variant| defect(variant));
    let sabotage = sabotage.and_then(Defect::to_possible_value).map(|value| value.get_name().to_owned());
    words.insert(0, "strandline-powercut".to_owned());
    words.extend(["--seed".to_owned(), seed.to_string(), "--expect-violation".to_owned(), "--sabotage".to_owned()]);
    words.extend(sabotage);
    Some(words)
}

fn noticed(arguments: &[String], control: &Control) -> Result<Result<String, String>, Trouble> {
    let parsed = Options::try_parse_from(arguments)
        .map_err(|error| system("a row of the table")(std::io::Error::other(error)))?;
    let interrupt = Interrupt::listen()?;
    let (broken, tried) = match &parsed.other {
        Some(Other::Faults(options)) => faults::broken(options, interrupt)?,
        _ => {
            let report = Run::new(&parsed, interrupt)?.run()?;
            (report.broken, report.total.cuts)
        }
    };
    Ok(judge(control.noticed_as, &broken).map(|()| format!("noticed, {tried} tried: {broken:?}")))
}

/// What a run with this defect must find, as the table says.
///
/// # Errors
/// The table has no such row.
pub fn noticed_as(sabotage: Option<Defect>, tier: Tier) -> Result<&'static [&'static str], String> {
    let defect = sabotage.map(|defect| controls::Defect::Engine(defect.engine()));
    let is_row = |control: &Control| Some(&control.defect) == defect.as_ref() && control.tier() == Some(tier);
    let row = controls::table().into_iter().find(is_row).map(|control| control.noticed_as);
    row.ok_or_else(|| format!("the table of controls does not say what {tier:?} should notice of {sabotage:?}"))
}

/// Whether what was found broken is what was to be noticed.
///
/// # Errors
/// Nothing was found, or something else.
pub fn judge(noticed_as: &[&str], broken: &BTreeSet<Promise>) -> Result<(), String> {
    if broken.is_empty() {
        return Err("no violation was found, and one was expected".to_owned());
    }
    if broken.iter().any(|promise| noticed_as.contains(&promise.text())) {
        return Ok(());
    }
    Err(format!("it was noticed as something else than {noticed_as:?}: {broken:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_command_that_can_be_run_and_names_promises_that_there_are() {
        const ALL: [Promise; 8] = [
            Promise::Kept,
            Promise::Right,
            Promise::Readable,
            Promise::Placed,
            Promise::GoesOn,
            Promise::Apart,
            Promise::Lives,
            Promise::Mounts,
        ];
        let mut rows = 0;
        for control in controls::table() {
            let Some(arguments) = arguments(&control, 3) else { continue };
            let parsed = Options::try_parse_from(&arguments).expect("a command");
            let (sabotage, tier) = match &parsed.other {
                Some(Other::Faults(options)) => (options.sabotage, Tier::T5Below),
                _ => (parsed.sabotage, Tier::T3),
            };
            assert_eq!(noticed_as(sabotage, tier), Ok(control.noticed_as));
            for promise in control.noticed_as {
                assert!(ALL.iter().any(|known| known.text() == *promise), "{promise}");
            }
            assert!(!control.noticed_as.is_empty());
            rows += 1;
        }
        assert!(rows >= 5, "{rows}");
    }

    #[test]
    fn a_defect_must_be_noticed_as_what_it_is() {
        let expected = [Promise::Kept.text()];
        assert!(judge(&expected, &BTreeSet::new()).is_err());
        assert!(judge(&expected, &BTreeSet::from([Promise::Lives, Promise::Mounts])).is_err(), "another kind");
        assert!(judge(&expected, &BTreeSet::from([Promise::Kept, Promise::Readable])).is_ok());
        assert!(noticed_as(None, Tier::T3).is_err());
    }
}
