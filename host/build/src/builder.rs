//! Builds guests: from packages to component files.
use crate::cargo::{self, Artifact};
use crate::lock::BuildLock;
use crate::toolchain::{Preference, Toolchain};
use crate::{BuildError, component, slot_of};
use std::path::{Path, PathBuf};

/// Builds guests of one workspace.
#[derive(Clone, Debug)]
pub struct Builder {
    root: PathBuf,
    target_dir: Option<PathBuf>,
    out_dir: Option<PathBuf>,
    preference: Option<Preference>,
}

/// A guest package of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    /// `kassette-method-ideal`
    pub package: String,
    /// `method.ideal`
    pub slot: String,
    /// Folder of its manifest, to watch for changes.
    pub folder: PathBuf,
}

/// A component that a build has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// `kassette-method-ideal`
    pub package: String,
    /// `method.ideal`
    pub slot: String,
    /// The component, `<out>/<slot>.wasm`.
    pub path: PathBuf,
    /// Whether the file already had exactly these bytes and was therefore not written.
    pub fresh: bool,
    pub bytes: usize,
}

/// Progress of a build, to show to a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Another build of the same workspace is running.
    Waiting,
    /// The build is running this command, which installs a compiler.
    Installing(&'static str),
    /// A crate has been compiled.
    Compiled {
        package: String,
        /// Whether the crate was up to date, so that cargo did not compile it.
        fresh: bool,
    },
    /// A component has been made.
    Component(Built),
}

impl Builder {
    /// A builder for the workspace whose `Cargo.toml` is in `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            target_dir: None,
            out_dir: None,
            preference: None,
        }
    }

    /// Compiles into this folder instead of `<root>/target/guests` (`guests-build-std` with
    /// Debian's compiler). The caller's `CARGO_TARGET_DIR` is never used.
    #[must_use]
    pub fn target_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.target_dir = Some(folder.into());
        self
    }

    /// Writes components into this folder instead of `<target folder>/components`.
    #[must_use]
    pub fn out_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.out_dir = Some(folder.into());
        self
    }

    /// Uses this toolchain preference instead of `KASSETTE_GUEST_TOOLCHAIN`.
    #[must_use]
    pub fn toolchain(mut self, preference: Preference) -> Self {
        self.preference = Some(preference);
        self
    }

    /// Returns the guest packages of the workspace, sorted by slot.
    ///
    /// # Errors Fails if cargo cannot read the workspace.
    pub fn discover(&self) -> Result<Vec<Guest>, BuildError> {
        let mut guests: Vec<Guest> = cargo::packages(&self.root()?)?
            .into_iter()
            .filter_map(|package| {
                Some(Guest {
                    slot: slot_of(&package.name)?,
                    folder: package.manifest_path.parent()?.to_owned(),
                    package: package.name,
                })
            })
            .collect();
        guests.sort_by(|a, b| a.slot.cmp(&b.slot));
        Ok(guests)
    }

    /// Compiles `packages` and writes their components, in the given order. Calls `progress` on this thread.
    /// Blocks until cargo has ended. One build runs per workspace at a time, across processes.
    ///
    /// # Errors See [`BuildError`]. Components written before the error remain.
    pub fn build<S: AsRef<str>>(
        &self,
        packages: &[S],
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Vec<Built>, BuildError> {
        let mut wanted = Vec::with_capacity(packages.len());
        for package in packages.iter().map(AsRef::as_ref) {
            let slot = slot_of(package);
            let slot = slot.ok_or_else(|| BuildError::NotAGuest(package.to_owned()))?;
            wanted.push((package, slot));
        }
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let root = self.root()?;
        let preference = match self.preference {
            Some(preference) => preference,
            None => Preference::from_env()?,
        };
        let locks = root.join("target");
        let _lock = BuildLock::take(&locks, || progress(Progress::Waiting))?;
        let toolchain =
            Toolchain::find(preference, &mut |what| progress(Progress::Installing(what)))?;
        let target_dir = match &self.target_dir {
            Some(folder) => absolute(folder)?,
            None => root.join("target").join(toolchain.folder()),
        };
        let names: Vec<&str> = wanted.iter().map(|(package, _)| *package).collect();
        let mut command = cargo::build_command(&root, &target_dir, &names);
        toolchain.apply(&mut command);
        let artifacts = cargo::build(&mut command, &mut |artifact| {
            progress(Progress::Compiled {
                package: artifact.package.clone(),
                fresh: artifact.fresh,
            });
        })?;
        let out = match &self.out_dir {
            Some(folder) => absolute(folder)?,
            None => target_dir.join("components"),
        };
        std::fs::create_dir_all(&out).map_err(BuildError::io("create", &out))?;
        let mut built = Vec::with_capacity(wanted.len());
        for (package, slot) in wanted {
            let component = finish(package, slot, &artifacts, &out)?;
            progress(Progress::Component(component.clone()));
            built.push(component);
        }
        Ok(built)
    }

    /// Returns the folder of the workspace if it has a manifest. A program started in a missing folder would fail
    /// with an error that blames the program.
    fn root(&self) -> Result<PathBuf, BuildError> {
        let root = absolute(&self.root)?;
        let manifest = root.join("Cargo.toml");
        std::fs::metadata(&manifest).map_err(BuildError::io("find the workspace's", manifest))?;
        Ok(root)
    }
}

fn absolute(path: &Path) -> Result<PathBuf, BuildError> {
    std::path::absolute(path).map_err(BuildError::io("find", path))
}

fn finish(
    package: &str,
    slot: String,
    artifacts: &[Artifact],
    out: &Path,
) -> Result<Built, BuildError> {
    let module = artifacts
        .iter()
        .find(|artifact| artifact.package == package && artifact.module.is_some())
        .and_then(|artifact| artifact.module.as_deref())
        .ok_or_else(|| BuildError::NoModule(package.to_owned()))?;
    let module = std::fs::read(module).map_err(BuildError::io("read", module))?;
    let component = component::encode(package, &module)?;
    let path = out.join(format!("{slot}.wasm"));
    let changed = component::write(&path, &component)?;
    Ok(Built {
        package: package.to_owned(),
        slot,
        path,
        fresh: !changed,
        bytes: component.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_is_no_guest_is_refused_before_anything_runs() {
        let built = Builder::new("/no/such/workspace").build(&["kassette-domain"], &mut |_| {});
        assert!(matches!(built, Err(BuildError::NotAGuest(name)) if name == "kassette-domain"));
    }

    #[test]
    fn a_missing_workspace_is_named() {
        let built = Builder::new("/no/such/workspace").discover();
        let text = built.unwrap_err().to_string();
        let expected = "cannot find the workspace's /no/such/workspace/Cargo.toml: ";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn nothing_asked_builds_nothing() {
        let built = Builder::new("/no/such/workspace").build::<&str>(&[], &mut |_| {});
        assert_eq!(built.unwrap(), []);
    }

    #[test]
    fn a_package_without_a_module_is_named() {
        let artifacts = [Artifact {
            package: "kassette-method-x".into(),
            fresh: false,
            module: None,
            program: None,
        }];
        let error = finish(
            "kassette-method-x",
            "method.x".into(),
            &artifacts,
            Path::new("/"),
        );
        let text = error.unwrap_err().to_string();
        assert!(
            text.contains("crate-type = [\"cdylib\", \"rlib\"]"),
            "{text}"
        );
    }
}
