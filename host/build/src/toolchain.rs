//! Finds the compiler for guests, in one of three ways, tried in this order:
//!
//! 1. The toolchain in use already has the target `wasm32-unknown-unknown`.
//! 2. `rustup target add`, if rustup is installed and the network allows it.
//! 3. On Debian, the packages `rustc-web` and `rust-web-src`, which apt installs as root: a compiler and the
//!    source of the standard library, which is compiled along with the guests.
//!
//! If these packages are already installed, they are used instead of the network. `KASSETTE_GUEST_TOOLCHAIN`
//! restricts the choice: `target` allows the first two ways, `build-std` the third.
mod facts;

pub use facts::Facts;

use crate::{BuildError, child};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Target that guests are compiled for.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// Environment variable that restricts the choice of a toolchain.
pub const VARIABLE: &str = "KASSETTE_GUEST_TOOLCHAIN";

/// Advice of the error message if no toolchain can be found or installed.
pub const ADVICE: &str = "Install one of these, then try again:\n  rustup target add wasm32-unknown-unknown\n  apt-get install --no-install-recommends rustc-web rust-web-src   (Debian, as root; needs rustup's rust-lld)";

const PACKAGES: [&str; 2] = ["rustc-web", "rust-web-src"];

const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// Time limit of rustup. It would wait for minutes on a network that drops packets.
const RUSTUP_LIMIT: Duration = Duration::from_secs(60);

/// Time limit of each apt-get command. An installation took 22 s; a slow mirror takes several times that.
const APT_LIMIT: Duration = Duration::from_secs(600);

/// Which toolchain the caller prefers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    /// Any toolchain.
    #[default]
    Auto,
    /// Only a toolchain that has the target or gets it from rustup.
    Target,
    /// Only Debian's compiler and source.
    BuildStd,
}

impl Preference {
    /// Parses the value of [`VARIABLE`]. An empty value means `auto`.
    ///
    /// # Errors [`BuildError::Preference`] for an unknown value.
    pub fn parse(word: &str) -> Result<Self, BuildError> {
        match word {
            "" | "auto" => Ok(Self::Auto),
            "target" => Ok(Self::Target),
            "build-std" => Ok(Self::BuildStd),
            _ => Err(BuildError::Preference(word.to_owned())),
        }
    }

    /// Reads the preference from the environment.
    ///
    /// # Errors Like [`Preference::parse`].
    pub fn from_env() -> Result<Self, BuildError> {
        let word = std::env::var_os(VARIABLE).unwrap_or_default();
        Self::parse(&word.to_string_lossy())
    }
}

/// One way to get a compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Compile with the installed target.
    UseTarget,
    /// Run `rustup target add`, then compile with the target.
    AddTarget,
    /// Compile the standard library with Debian's compiler.
    UseBuildStd,
    /// Install Debian's packages, then compile as in `UseBuildStd`.
    InstallBuildStd,
}

/// Returns the steps to try, in order, and the reasons why others are not tried. Without steps, nothing can work
/// here.
#[must_use]
pub fn plan(preference: Preference, facts: &Facts) -> (Vec<Step>, Vec<String>) {
    let mut steps = Vec::new();
    let mut not_tried = Vec::new();
    if preference != Preference::BuildStd && facts.target {
        return (vec![Step::UseTarget], not_tried);
    }
    if preference != Preference::Target {
        match (&facts.lld, facts.debian_packages) {
            (None, _) => not_tried.push(
                "Debian's rustc-web: the toolchain in use has no rust-lld to link with".into(),
            ),
            (Some(_), true) => steps.push(Step::UseBuildStd),
            (Some(_), false) if !facts.apt => {
                not_tried.push("Debian's rustc-web: there is no apt-get here".into());
            }
            (Some(_), false) if !facts.root => {
                not_tried.push("apt-get install rustc-web: only root may install packages".into());
            }
            (Some(_), false) => steps.push(Step::InstallBuildStd),
        }
    }
    if preference != Preference::BuildStd {
        not_tried.insert(
            0,
            format!("the target {TARGET}: the toolchain in use does not have it"),
        );
        if !facts.rustup {
            not_tried.push("rustup target add: there is no rustup here".into());
        } else if steps.first() != Some(&Step::UseBuildStd) {
            // Installed packages are preferred to the network, and the network to an installation as root.
            steps.insert(0, Step::AddTarget);
        }
    }
    (steps, not_tried)
}

/// A compiler that is ready for use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Toolchain {
    /// The toolchain in use, which has the target.
    Target,
    /// Debian's compiler, which also builds the standard library, with the linker of the toolchain in use.
    BuildStd {
        /// Path of rust-lld.
        lld: PathBuf,
    },
}

impl Toolchain {
    /// Finds or installs a compiler. Calls `tell` with each command that takes time before it runs.
    ///
    /// # Errors [`BuildError::Toolchain`] with everything that was tried; [`BuildError::Spawn`] or
    /// [`BuildError::TimedOut`] if rustc cannot be run.
    pub fn find(
        preference: Preference,
        tell: &mut dyn FnMut(&'static str),
    ) -> Result<Self, BuildError> {
        let facts = Facts::gather()?;
        let (steps, mut tried) = plan(preference, &facts);
        for step in steps {
            let done = match step {
                Step::UseTarget | Step::UseBuildStd => Ok(()),
                Step::AddTarget => {
                    tell("rustup target add wasm32-unknown-unknown (up to 60 s)");
                    add_target()
                }
                Step::InstallBuildStd => {
                    tell("apt-get install rustc-web rust-web-src (up to 10 min)");
                    install_debian_packages()
                }
            };
            match (done, step, &facts.lld) {
                (Ok(()), Step::UseBuildStd | Step::InstallBuildStd, Some(lld)) => {
                    return Ok(Self::BuildStd { lld: lld.clone() });
                }
                (Ok(()), ..) => return Ok(Self::Target),
                (Err(why), ..) => tried.push(why),
            }
        }
        Err(BuildError::Toolchain {
            tried,
            advice: ADVICE,
        })
    }

    /// Adds the arguments and variables of this compiler to a cargo command.
    pub(crate) fn apply(&self, command: &mut Command) {
        if let Self::BuildStd { lld } = self {
            command
                .arg("-Zbuild-std=std,panic_abort")
                .env("RUSTC", DEBIAN_RUSTC)
                .env("RUSTC_BOOTSTRAP", "1")
                .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", lld);
        }
    }

    /// Name of the target folder. The artifacts of the two compilers must not mix.
    pub(crate) const fn folder(&self) -> &'static str {
        match self {
            Self::Target => "guests",
            Self::BuildStd { .. } => "guests-build-std",
        }
    }
}

fn add_target() -> Result<(), String> {
    let mut command = Command::new("rustup");
    command.args(["target", "add", TARGET]);
    succeed("rustup target add", &mut command, RUSTUP_LIMIT)
}

fn install_debian_packages() -> Result<(), String> {
    let apt = || {
        let mut command = Command::new("apt-get");
        command
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["-o", "DPkg::Lock::Timeout=120"]);
        command
    };
    succeed("apt-get update", apt().arg("update"), APT_LIMIT)?;
    let mut install = apt();
    install
        .args(["install", "-y", "--no-install-recommends"])
        .args(PACKAGES);
    succeed("apt-get install rustc-web", &mut install, APT_LIMIT)
}

/// Runs an installer. The error is one sentence with the last line of its stderr.
fn succeed(name: &str, command: &mut Command, limit: Duration) -> Result<(), String> {
    let outcome = child::run(command, limit).map_err(|error| format!("{name}: {error}"))?;
    if outcome.status.success() {
        return Ok(());
    }
    let last = outcome
        .stderr
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty());
    Err(format!(
        "{name}: {}: {}",
        outcome.status,
        last.unwrap_or("no message")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            target: false,
            rustup: true,
            lld: Some("/lld".into()),
            debian_packages: false,
            apt: true,
            root: true,
        }
    }

    fn steps(preference: Preference, facts: Facts) -> Vec<Step> {
        plan(preference, &facts).0
    }

    #[test]
    fn a_target_that_is_there_is_all_that_is_used() {
        let facts = Facts {
            target: true,
            debian_packages: true,
            ..facts()
        };
        assert_eq!(steps(Preference::Auto, facts.clone()), [Step::UseTarget]);
        assert_eq!(steps(Preference::Target, facts), [Step::UseTarget]);
    }

    #[test]
    fn build_std_can_be_forced_where_the_target_is_there() {
        let facts = Facts {
            target: true,
            debian_packages: true,
            ..facts()
        };
        assert_eq!(steps(Preference::BuildStd, facts), [Step::UseBuildStd]);
    }

    #[test]
    fn a_bare_machine_asks_rustup_then_apt() {
        assert_eq!(
            steps(Preference::Auto, facts()),
            [Step::AddTarget, Step::InstallBuildStd]
        );
        assert_eq!(steps(Preference::Target, facts()), [Step::AddTarget]);
        assert_eq!(
            steps(Preference::BuildStd, facts()),
            [Step::InstallBuildStd]
        );
    }

    #[test]
    fn packages_that_are_there_come_before_the_network() {
        let facts = Facts {
            debian_packages: true,
            ..facts()
        };
        assert_eq!(steps(Preference::Auto, facts), [Step::UseBuildStd]);
    }

    #[test]
    fn what_cannot_be_tried_is_said() {
        let facts = Facts {
            rustup: false,
            root: false,
            ..facts()
        };
        let (steps, why) = plan(Preference::Auto, &facts);
        assert_eq!(steps, []);
        let text = why.join("\n");
        assert!(text.contains("does not have it"), "{text}");
        assert!(text.contains("only root may install packages"), "{text}");
        assert!(text.contains("there is no rustup"), "{text}");
    }

    #[test]
    fn without_a_linker_debian_is_no_way() {
        let facts = Facts {
            lld: None,
            debian_packages: true,
            ..facts()
        };
        let (steps, why) = plan(Preference::BuildStd, &facts);
        assert_eq!(steps, []);
        assert!(why.concat().contains("rust-lld"));
    }

    #[test]
    fn preferences_are_read_strictly() {
        assert_eq!(Preference::parse("").unwrap(), Preference::Auto);
        assert_eq!(
            Preference::parse("build-std").unwrap(),
            Preference::BuildStd
        );
        let error = Preference::parse("nightly").unwrap_err().to_string();
        assert!(error.contains("auto, target or build-std"), "{error}");
    }

    #[test]
    fn a_failing_installer_tells_its_last_line() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo first >&2; echo 'no network' >&2; exit 1"]);
        let error = succeed("rustup target add", &mut command, Duration::from_secs(60));
        assert_eq!(
            error,
            Err("rustup target add: exit status: 1: no network".into())
        );
    }
}
