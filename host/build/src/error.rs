//! Errors of a build.
use std::path::PathBuf;

/// Error of a build. Messages say what to do if the user can do something.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// `KASSETTE_GUEST_TOOLCHAIN` has an unknown value.
    #[error("KASSETTE_GUEST_TOOLCHAIN is {0:?}; it must be auto, target or build-std")]
    Preference(String),
    /// No toolchain here compiles to wasm32, and none could be installed.
    #[error("no way to compile guests to wasm32-unknown-unknown.\nTried:\n{}\n{advice}", bullets(.tried))]
    Toolchain {
        /// One sentence for each toolchain that was tried or ruled out.
        tried: Vec<String>,
        /// Instructions for installing a toolchain.
        advice: &'static str,
    },
    /// A program could not be started.
    #[error("cannot run {program}: {source}")]
    Spawn {
        /// Its name or path.
        program: String,
        source: std::io::Error,
    },
    /// A program exceeded its time limit and was stopped.
    #[error("{program} did not end within {seconds} s and was stopped")]
    TimedOut {
        /// Its name or path.
        program: String,
        seconds: u64,
    },
    /// cargo failed, with the end of its stderr.
    #[error("cargo could not build the guests:\n{0}")]
    Cargo(String),
    /// cargo's description of the workspace could not be read.
    #[error("cannot read cargo's metadata: {0}")]
    Metadata(#[from] serde_json::Error),
    /// `Cargo.lock` could not be read, or does not list the program.
    #[error("cannot read Cargo.lock: {0}")]
    Lock(String),
    /// `strip` failed or is not installed.
    #[error(
        "the program cannot be stripped of what only debuggers read: {0}\nstrip is a part of binutils, as the linker is that Rust uses (Debian: apt-get install binutils)"
    )]
    Strip(String),
    /// The package name does not belong to a guest.
    #[error(
        "{0} is not a guest: a guest is named kassette-method-<name> or kassette-provider-<name>"
    )]
    NotAGuest(String),
    /// cargo built the package but no wasm file.
    #[error("{0} gave no wasm file; its [lib] needs crate-type = [\"cdylib\", \"rlib\"]")]
    NoModule(String),
    /// The core module could not be made a component.
    #[error("{package} cannot be made a component: {reason}")]
    Component {
        /// The guest package.
        package: String,
        /// The encoder's message.
        reason: String,
    },
    /// A file or folder could not be used.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The failed action as a verb, such as "write".
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
}

impl BuildError {
    /// For `map_err`: adds the action and the path to an I/O error.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}

fn bullets(sentences: &[String]) -> String {
    let lines: Vec<String> = sentences.iter().map(|line| format!("  - {line}")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_toolchain_message_names_what_was_tried_and_what_to_install() {
        let error = BuildError::Toolchain {
            tried: vec![
                "the target: not installed".into(),
                "rustup: timed out".into(),
            ],
            advice: crate::toolchain::ADVICE,
        };
        let text = error.to_string();
        assert!(
            text.contains("  - the target: not installed\n  - rustup: timed out"),
            "{text}"
        );
        assert!(
            text.contains("rustup target add wasm32-unknown-unknown"),
            "{text}"
        );
        assert!(text.contains("rustc-web"), "{text}");
    }

    #[test]
    fn a_file_error_names_action_and_path() {
        let source = std::io::Error::other("disk full");
        let error = BuildError::io("write", "/x/y.wasm")(source);
        assert_eq!(error.to_string(), "cannot write /x/y.wasm: disk full");
    }
}
