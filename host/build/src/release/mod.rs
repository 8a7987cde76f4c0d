//! A release: one archive with the program, its modules, samples, checksums and a bill of materials.
//!
//! | module | content |
//! |---|---|
//! | `archive` | packs the files in a fixed order and with a fixed time |
//! | `bom` | lists every crate that is compiled in |

mod archive;
mod bom;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::bundle::{BundledModule, append};
use crate::{BuildError, Built, child};

/// Time limit of `strip`, which reads about 150 MB and writes 50 MB.
const STRIP_LIMIT: Duration = Duration::from_secs(120);
/// Time limit of `rustc --print`, which usually takes milliseconds.
const QUESTION_LIMIT: Duration = Duration::from_secs(120);

/// Content of a release.
#[derive(Clone, Copy, Debug)]
pub struct Release<'a> {
    /// The workspace's folder.
    pub root: &'a Path,
    /// The executable, as cargo built it.
    pub program: &'a Path,
    /// The modules to append to the program.
    pub modules: &'a [Built],
    /// Target that the program was compiled for, such as `x86_64-unknown-linux-gnu`.
    pub target: &'a str,
    /// gzip level of the archive, 0 to 9.
    pub compression: u32,
}

/// Mode and bytes of the files of a release, by path in the archive.
type Files = BTreeMap<String, (u32, Vec<u8>)>;

impl Release<'_> {
    /// Writes `kassette-<version>-<target>.tar.gz` and its `.sha256` file into a folder. Returns the path of the
    /// archive. The same files give the same bytes.
    ///
    /// # Errors Fails if a file cannot be read or written, if cargo cannot list the crates, or if `strip` fails.
    pub fn write(&self, out: &Path) -> Result<PathBuf, BuildError> {
        fs::create_dir_all(out).map_err(BuildError::io("create", out))?;
        let modules = self.modules.iter().map(|module| module.package.as_str());
        let bom = bom::read(self.root, self.target, &modules.collect::<Vec<_>>())?;
        let name = format!("kassette-{}-{}", bom.version, self.target);
        let mut files = Files::new();
        files.insert("kassette".into(), (0o755, self.whole_program(out)?));
        for module in self.modules {
            let path = format!("modules/{}.wasm", module.slot);
            files.insert(path, (0o644, read(&module.path)?));
        }
        files.insert("kassette.cdx.json".into(), (0o644, bom.json));
        self.add(&mut files, "", |name| name == "LICENSE")?;
        // Selects files by name: an operator's own files may be next to the samples.
        self.add(&mut files, "config", |name| {
            name == "kassette.toml" || name.ends_with(".md")
        })?;
        self.add(&mut files, "config/deploy", |_| true)?;
        self.add(&mut files, "config/providers", |name| {
            name.ends_with(".example.toml")
        })?;
        let sums: String = files
            .iter()
            .map(|(path, (_, bytes))| sum(bytes, path))
            .collect();
        files.insert("SHA256SUMS".into(), (0o644, sums.into_bytes()));
        let packed = archive::pack(&name, &files, self.compression)
            .map_err(BuildError::io("pack", &name))?;
        let archive = out.join(format!("{name}.tar.gz"));
        let beside = out.join(format!("{name}.tar.gz.sha256"));
        let told = sum(&packed, &format!("{name}.tar.gz"));
        write(&archive, &packed)?;
        write(&beside, told.as_bytes())?;
        Ok(archive)
    }

    /// The program without debug information and with its modules.
    fn whole_program(&self, out: &Path) -> Result<Vec<u8>, BuildError> {
        let scratch = tempfile::tempdir_in(out).map_err(BuildError::io("create", out))?;
        let stripped = scratch.path().join("kassette");
        let mut strip = Command::new("strip");
        strip.arg("-o").arg(&stripped).arg(self.program);
        let done = child::run(&mut strip, STRIP_LIMIT);
        let done = done.map_err(|error| BuildError::Strip(error.to_string()))?;
        if !done.status.success() {
            return Err(BuildError::Strip(done.stderr));
        }
        let mut program = read(&stripped)?;
        let modules = self.modules.iter().map(|module| {
            Ok(BundledModule {
                slot: module.slot.clone(),
                bytes: read(&module.path)?,
            })
        });
        append(
            &mut program,
            &modules.collect::<Result<Vec<_>, BuildError>>()?,
        )?;
        Ok(program)
    }

    /// Adds the files of a workspace folder whose names match `is_part`.
    fn add(
        &self,
        files: &mut Files,
        folder: &str,
        is_part: impl Fn(&str) -> bool,
    ) -> Result<(), BuildError> {
        let path = self.root.join(folder);
        for entry in fs::read_dir(&path).map_err(BuildError::io("read", &path))? {
            let entry = entry.map_err(BuildError::io("read", &path))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().is_file() && is_part(&name) {
                let inside = Path::new(folder).join(&name).display().to_string();
                files.insert(inside, (0o644, read(&entry.path())?));
            }
        }
        Ok(())
    }
}

/// Returns the target that this machine's compiler compiles for by default.
///
/// # Errors Fails if rustc is missing, or prints no target.
pub fn host_target() -> Result<String, BuildError> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut ask = Command::new(rustc);
    ask.arg("--print=host-tuple");
    let answer = child::run(&mut ask, QUESTION_LIMIT)?;
    match answer.stdout.trim() {
        "" => Err(BuildError::Cargo(answer.stderr)),
        target => Ok(target.to_owned()),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, BuildError> {
    fs::read(path).map_err(BuildError::io("read", path))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    kassette_files::write(path, 0o644, bytes).map_err(BuildError::io("write", path))
}

/// A line in the format of `sha256sum --check`.
fn sum(bytes: &[u8], path: &str) -> String {
    format!("{}  {path}\n", hex::encode(Sha256::digest(bytes)))
}
