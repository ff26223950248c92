//! Backend: who carries a disk's operations out, and the word of the environment on it.

use super::setup_error::SetupError;
use serde::Serialize;
use std::fmt;

/// The variable of the environment that overrules the configuration: for whoever runs a program that they did not write.
pub const BACKEND_VARIABLE: &str = "STRANDLINE_BACKEND";

/// Who carries a disk's operations out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// A ring where one is to be had; else plain system calls, with one warning.
    #[default]
    Auto,
    /// A ring, or nothing.
    Uring,
    /// Plain system calls on a few threads.
    Posix,
}

impl Backend {
    const ALL: [Backend; 3] = [Backend::Auto, Backend::Uring, Backend::Posix];

    /// This one, unless [`BACKEND_VARIABLE`] is set and not empty: that one then.
    ///
    /// # Errors
    /// [`SetupError::UnknownBackend`] where the variable names none.
    pub fn unless_overruled(self) -> Result<Backend, SetupError> {
        self.overruled_by(std::env::var_os(BACKEND_VARIABLE).map(|value| value.to_string_lossy().into_owned()))
    }

    fn overruled_by(self, said: Option<String>) -> Result<Backend, SetupError> {
        let Some(value) = said.filter(|value| !value.is_empty()) else { return Ok(self) };
        let named = Backend::ALL.into_iter().find(|backend| backend.to_string() == value);
        named.ok_or(SetupError::UnknownBackend { value })
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Backend::Auto => "auto",
            Backend::Uring => "uring",
            Backend::Posix => "posix",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ur_13_the_environment_overrules_the_configuration_and_nonsense_is_refused() {
        for configured in Backend::ALL {
            assert_eq!(configured.overruled_by(None), Ok(configured));
            assert_eq!(configured.overruled_by(Some(String::new())), Ok(configured));
            for said in Backend::ALL {
                assert_eq!(configured.overruled_by(Some(said.to_string())), Ok(said));
            }
            let refused = configured.overruled_by(Some("Posix".into())).expect_err("it is written otherwise");
            assert_eq!(refused, SetupError::UnknownBackend { value: "Posix".into() });
            assert!(refused.to_string().contains("STRANDLINE_BACKEND"), "{refused}");
        }
    }
}
