//! People and scripts that run the gateway.

use serde::{Deserialize, Serialize};

use crate::audit;
use crate::id::OperatorId;
use crate::key::TokenHash;
use crate::text::is_blank;
use crate::time::Time;

/// What an operator may do; each includes the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read everything.
    Viewer,
    /// Change all but operators, the making of merchants, live approval and live rollouts.
    Operator,
    /// Everything.
    Admin,
}

/// An operator with a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operator {
    pub id: OperatorId,
    /// For the audit log; see [`Operator::read_name`].
    pub name: String,
    pub role: Role,
    /// SHA-256 of the token.
    pub hash: TokenHash,
    pub created_at: Time,
    /// From when on its token is refused.
    pub expires_at: Option<Time>,
}

/// Why a name is none for an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// Too short or too long, counted in Unicode scalar values.
    #[error("must be 1-{} characters long", Operator::MAX_NAME)]
    Length,
    /// It could look like another name.
    #[error("must not contain control, text-direction or invisible characters")]
    Hidden,
    /// The server stands in the audit log under it.
    #[error("is reserved for the server's own changes; choose another name")]
    Reserved,
}

/// A name without what two writings of it may differ in.
fn folded(name: &str) -> String {
    // Upper case first: it writes out letters that have no lower case of their own, such as long s.
    name.trim().to_uppercase().to_lowercase()
}

impl Operator {
    /// Most characters of a name.
    pub const MAX_NAME: usize = 100;

    /// Reads a name for the audit log, without the white space around it.
    ///
    /// # Errors
    /// See [`BadName`].
    pub fn read_name(text: &str) -> Result<String, BadName> {
        let name = text.trim();
        if !(1..=Self::MAX_NAME).contains(&name.chars().count()) {
            return Err(BadName::Length);
        }
        if name.chars().any(|c| c != ' ' && is_blank(c)) {
            return Err(BadName::Hidden);
        }
        if [audit::SYSTEM, audit::PLUGIN_FOLDER].contains(&folded(name).as_str()) {
            return Err(BadName::Reserved);
        }
        Ok(name.to_owned())
    }

    /// Whether a reader could take the name for this operator's: upper and lower case are one.
    pub fn is_called(&self, name: &str) -> bool {
        folded(&self.name) == folded(name)
    }

    /// Whether the token still opens anything.
    pub fn usable(&self, now: Time) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_trimmed_and_hides_nothing() {
        for (text, name) in [("ann", "ann"), (" Ann B \t", "Ann B"), ("Zoë", "Zoë")] {
            assert_eq!(Operator::read_name(text).as_deref(), Ok(name));
        }
        for text in ["", " \t ", &"a".repeat(101)] {
            assert_eq!(Operator::read_name(text), Err(BadName::Length), "{text:?}");
        }
        for c in [
            '\n', '\u{7}', '\u{A0}', '\u{AD}', '\u{200B}', '\u{200D}', '\u{202E}', '\u{2066}',
            '\u{2800}', '\u{FE0F}',
        ] {
            assert_eq!(
                Operator::read_name(&format!("a{c}n")),
                Err(BadName::Hidden),
                "{c:?}"
            );
        }
    }

    #[test]
    fn the_servers_own_names_are_reserved_in_any_case() {
        for name in [
            "system",
            " System ",
            "SYSTEM",
            "\u{17F}ystem",
            "plugin-folder",
            "Plugin-Folder",
        ] {
            assert_eq!(Operator::read_name(name), Err(BadName::Reserved), "{name}");
        }
        assert!(Operator::read_name("systems").is_ok());
    }
}
