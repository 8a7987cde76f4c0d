//! Facts about this machine.
use super::{PACKAGES, TARGET};
use crate::{BuildError, child};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Time limit of rustc and dpkg. Both are fast, but rustup's proxy may first install the toolchain of a toolchain
/// file.
const QUESTION_LIMIT: Duration = Duration::from_secs(120);

/// Facts that the choice of a toolchain depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Whether the toolchain in use has the target.
    pub target: bool,
    /// Whether rustup is in `PATH`.
    pub rustup: bool,
    /// The toolchain's own linker. `None` if it has none.
    pub lld: Option<PathBuf>,
    /// Whether Debian's compiler and source are installed.
    pub debian_packages: bool,
    /// Whether apt-get is in `PATH`.
    pub apt: bool,
    /// Whether this process runs as root and may install packages.
    pub root: bool,
}

impl Facts {
    /// Runs rustc and inspects the machine.
    pub(crate) fn gather() -> Result<Self, BuildError> {
        let answer = child::run(
            Command::new(rustc()).args([
                "--print=sysroot",
                "--print=host-tuple",
                "--print=target-libdir",
                "--target",
                TARGET,
            ]),
            QUESTION_LIMIT,
        )?;
        let mut lines = answer.stdout.lines();
        let (sysroot, host) = (lines.next(), lines.next());
        let libraries = lines.next();
        let lld = sysroot.zip(host).map(|(sysroot, host)| {
            let folder = Path::new(sysroot).join("lib/rustlib").join(host);
            folder.join("bin/rust-lld")
        });
        Ok(Self {
            target: libraries.is_some_and(has_library),
            rustup: on_path("rustup"),
            lld: lld.filter(|lld| lld.is_file()),
            debian_packages: debian_packages(),
            apt: on_path("apt-get"),
            root: rustix::process::geteuid().is_root(),
        })
    }
}

fn rustc() -> OsString {
    std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())
}

/// Whether the folder contains the core library: an interrupted installation leaves an empty folder.
fn has_library(folder: &str) -> bool {
    std::fs::read_dir(folder).is_ok_and(|entries| {
        entries.flatten().any(|entry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with("libcore-")
        })
    })
}

fn debian_packages() -> bool {
    if !on_path("dpkg-query") {
        return false;
    }
    let mut command = Command::new("dpkg-query");
    command
        .args(["-W", "-f", "${db:Status-Status}\n"])
        .args(PACKAGES);
    child::run(&mut command, QUESTION_LIMIT).is_ok_and(|answer| {
        let installed = answer.stdout.lines().filter(|line| *line == "installed");
        answer.status.success() && installed.count() == PACKAGES.len()
    })
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_folder_counts_only_with_the_core_library_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        assert!(!has_library(path));
        std::fs::write(folder.path().join("libcore-0123.rlib"), b"").unwrap();
        assert!(has_library(path));
        assert!(!has_library("/no/such/folder"));
    }

    #[test]
    fn this_machine_can_be_described() {
        let facts = Facts::gather().unwrap();
        assert!(facts.lld.is_none_or(|lld| lld.is_absolute()));
    }
}
