//! Which compiler makes the guests.
//!
//! Three ways, tried in this order:
//!
//! 1. The toolchain in use has the target `wasm32-unknown-unknown` already.
//! 2. `rustup target add`, where there is rustup and the network allows it.
//! 3. On Debian the packages `rustc-web` and `rust-web-src`, installed by apt as root: a compiler
//!    and the standard library's source, compiled along with the guests.
//!
//! Where the third way's packages are there already they are used before the network is tried.
//! `KASSETTE_GUEST_TOOLCHAIN` forces one: `target` the first two, `build-std` the third.
mod facts;

pub use facts::Facts;

use crate::{BuildError, child};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// What guests are compiled for.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// The environment variable that forces a way.
pub const VARIABLE: &str = "KASSETTE_GUEST_TOOLCHAIN";

/// What the message says where no way is left.
pub const ADVICE: &str = "Install one of these, then try again:\n  rustup target add wasm32-unknown-unknown\n  apt-get install --no-install-recommends rustc-web rust-web-src   (Debian, as root; needs rustup's rust-lld)";

/// The packages of the third way.
const PACKAGES: [&str; 2] = ["rustc-web", "rust-web-src"];

/// Debian's compiler.
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// A network that swallows packets lets rustup wait for minutes.
const RUSTUP_LIMIT: Duration = Duration::from_secs(60);

/// 22 s where it was measured; a slow mirror takes several times that.
const APT_LIMIT: Duration = Duration::from_secs(600);

/// Which toolchain the caller prefers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    /// Whatever works.
    #[default]
    Auto,
    /// Only a toolchain that has the target, or gets it from rustup.
    Target,
    /// Only Debian's compiler and source.
    BuildStd,
}

impl Preference {
    /// Reads the words of [`VARIABLE`]; empty is `auto`.
    ///
    /// # Errors
    /// [`BuildError::Preference`] for any other word.
    pub fn parse(word: &str) -> Result<Self, BuildError> {
        match word {
            "" | "auto" => Ok(Self::Auto),
            "target" => Ok(Self::Target),
            "build-std" => Ok(Self::BuildStd),
            _ => Err(BuildError::Preference(word.to_owned())),
        }
    }

    /// The preference in the environment.
    ///
    /// # Errors
    /// As [`Preference::parse`].
    pub fn from_env() -> Result<Self, BuildError> {
        let word = std::env::var_os(VARIABLE).unwrap_or_default();
        Self::parse(&word.to_string_lossy())
    }
}

/// One thing to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Compile with the target that is there.
    UseTarget,
    /// `rustup target add`, then compile with it.
    AddTarget,
    /// Compile the standard library with Debian's compiler.
    UseBuildStd,
    /// Install Debian's packages, then do that.
    InstallBuildStd,
}

/// What to try, in order, and why the rest is not tried. No steps: nothing can work here.
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
            // what is there already beats the network, which beats root's rights
            steps.insert(0, Step::AddTarget);
        }
    }
    (steps, not_tried)
}

/// A compiler that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Toolchain {
    /// The toolchain in use, with the target.
    Target,
    /// Debian's compiler building the standard library, linked by this rust-lld.
    BuildStd {
        /// Path of the linker.
        lld: PathBuf,
    },
}

impl Toolchain {
    /// Finds or installs a compiler. `tell` hears what takes time.
    ///
    /// # Errors
    /// [`BuildError::Toolchain`] with everything that was tried; [`BuildError::Spawn`] where there
    /// is no rustc at all.
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

    /// Adds to a cargo command what this compiler needs.
    pub(crate) fn apply(&self, command: &mut Command) {
        if let Self::BuildStd { lld } = self {
            command
                .arg("-Zbuild-std=std,panic_abort")
                .env("RUSTC", DEBIAN_RUSTC)
                .env("RUSTC_BOOTSTRAP", "1")
                .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", lld);
        }
    }

    /// The target folder's name: the two compilers' artifacts never mix.
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

/// Runs an installer; the error is one sentence with the last line that it wrote.
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
