//! Operators: people and scripts that run the gateway.

use serde::{Deserialize, Serialize};

use crate::audit;
use crate::id::OperatorId;
use crate::key::TokenHash;
use crate::order::{BadText, is_name};
use crate::text::is_blank;
use crate::time::Time;

/// Permissions of an operator; each role includes the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read everything.
    Viewer,
    /// Change everything except operators, creation of merchants, live approval and live rollouts.
    Operator,
    /// Everything.
    Admin,
}

impl Role {
    /// The name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
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
    /// Time at which its token expires.
    pub expires_at: Option<Time>,
}

/// Reason why a text cannot be an operator's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// It breaks the rules for all names.
    #[error(transparent)]
    Text(#[from] BadText),
    /// It could look like another name.
    #[error("must not contain invisible characters")]
    Hidden,
    /// The server uses it in the audit log.
    #[error("is reserved for the server's own changes; choose another name")]
    Reserved,
}

/// Canonical form of a name, for comparison regardless of case.
fn folded(name: &str) -> String {
    // Upper case first: it replaces letters that lack a lower case of their own, such as long s.
    name.to_uppercase().to_lowercase()
}

impl Operator {
    /// Maximum number of characters of a name.
    pub const MAX_NAME: usize = 100;

    /// Parses a name for the audit log.
    ///
    /// # Errors
    /// See [`BadName`].
    pub fn read_name(text: &str) -> Result<String, BadName> {
        is_name(text, Self::MAX_NAME)?;
        if text.chars().any(|c| c != ' ' && is_blank(c)) {
            return Err(BadName::Hidden);
        }
        if [audit::SYSTEM, audit::PLUGIN_FOLDER].contains(&folded(text).as_str()) {
            return Err(BadName::Reserved);
        }
        Ok(text.to_owned())
    }

    /// Whether the name equals this operator's, regardless of case.
    pub fn is_called(&self, name: &str) -> bool {
        folded(&self.name) == folded(name)
    }

    /// Whether the token has not expired.
    pub fn usable(&self, now: Time) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_hides_nothing() {
        for name in ["ann", "Ann B", "Zoë"] {
            assert_eq!(Operator::read_name(name).as_deref(), Ok(name));
        }
        for text in [
            "",
            " ",
            " root",
            "root ",
            "\u{3000}root",
            "a\nb",
            "ro\u{202E}ot",
            &"a".repeat(101),
        ] {
            let refused = Operator::read_name(text);
            assert!(matches!(refused, Err(BadName::Text(_))), "{text:?}");
        }
        for c in [
            '\u{A0}', '\u{AD}', '\u{200B}', '\u{200D}', '\u{2800}', '\u{FE0F}',
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
