//! A name: one component of a path below the store's root.

use std::ffi::{CStr, CString};
use std::fmt;
use std::sync::Arc;

/// The longest name that a Linux file system takes, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// One path component: not empty, at most 255 bytes, UTF-8, without separator or NUL, not `.` or `..`.
///
/// Every file operation takes names relative to a directory handle, so a `Name` cannot leave its directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<CStr>);

/// Why a text is no [`Name`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} cannot name a file: {reason}")]
pub struct NameError {
    /// The refused text.
    pub name: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl Name {
    /// Checks `text` and makes a name of it.
    ///
    /// # Errors
    /// [`NameError`] when the text is empty, longer than 255 bytes, `.` or `..`, or holds `/` or NUL.
    pub fn new(text: &str) -> Result<Name, NameError> {
        let refuse = |reason| NameError { name: text.to_owned(), reason };
        match text {
            "" => return Err(refuse("it is empty")),
            "." | ".." => return Err(refuse("it is a relative directory")),
            _ if text.len() > NAME_BYTES_MAX => return Err(refuse("it is longer than 255 bytes")),
            _ if text.contains('/') => return Err(refuse("it holds a separator")),
            _ => {}
        }
        let text = CString::new(text).map_err(|_| refuse("it holds a zero byte"))?;
        Ok(Name(Arc::from(text)))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    /// The name as the kernel reads it. The pointer stays valid while any clone of this name lives.
    #[must_use]
    pub fn as_c_str(&self) -> &CStr {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_directory() {
        for text in ["", ".", "..", "a/b", "/", "a\0b", &"x".repeat(256)] {
            assert!(Name::new(text).is_err(), "{text:?}");
        }
        for text in ["a", "...", "data.0", &"x".repeat(255)] {
            assert_eq!(Name::new(text).expect("a plain name").as_str(), text);
        }
    }
}
