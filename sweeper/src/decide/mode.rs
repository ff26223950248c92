//! What the orphan sweep may do.

use super::guard::Skipped;
use std::fmt;
use std::str::FromStr;

/// What the orphan sweep may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Remove what is ready.
    Delete,
    /// Say what is ready. What a sweep does that nobody has configured.
    #[default]
    Report,
    /// Nothing.
    Off,
}

/// A mode that there is not. A store refuses to start with it: a mistyped `off` must not delete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("orphans is {asked:?}; it is one of delete, report, off")]
pub struct ModeError {
    /// What was asked for.
    pub asked: String,
}

impl Mode {
    /// Whether a pass is begun.
    ///
    /// # Errors
    /// [`Skipped::Off`].
    pub fn begin(self) -> Result<(), Skipped> {
        if self == Mode::Off { Err(Skipped::Off) } else { Ok(()) }
    }
}

impl FromStr for Mode {
    type Err = ModeError;

    fn from_str(asked: &str) -> Result<Mode, ModeError> {
        let modes = [Mode::Delete, Mode::Report, Mode::Off];
        let mode = modes.into_iter().find(|mode| mode.to_string() == asked);
        mode.ok_or_else(|| ModeError { asked: asked.to_owned() })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Delete => "delete",
            Mode::Report => "report",
            Mode::Off => "off",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn exactly_three_words_are_a_mode(asked in "(delete|report|off|Delete|OFF| off|false|)[a-z ]{0,2}") {
            let is_mode = ["delete", "report", "off"].contains(&asked.as_str());
            match asked.parse::<Mode>() {
                Ok(mode) => prop_assert!(is_mode && mode.to_string() == asked),
                Err(error) => {
                    let quoted = format!("{asked:?}");
                    prop_assert!(!is_mode && error.to_string().contains(&quoted));
                }
            }
        }
    }
}
