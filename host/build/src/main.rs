//! Makes a release: `cargo run --release -p kassette-build [FOLDER]`.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kassette_build::{BuildError, Builder, Progress, Release, build_program, host_target};

/// The highest gzip level. Takes some seconds.
const COMPRESSION: u32 = 9;

#[expect(
    clippy::print_stdout,
    reason = "this is what the release is taken from"
)]
fn main() -> ExitCode {
    match release() {
        Ok(archive) => {
            println!("{}", archive.display());
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("release: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the modules and the program, and writes the archive into the folder given as argument, or into
/// `target/dist`.
fn release() -> Result<PathBuf, BuildError> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = own.ancestors().nth(2).unwrap_or(own);
    let out = std::env::args_os().nth(1).map(PathBuf::from);
    let out = out.unwrap_or_else(|| root.join("target/dist"));
    let target = host_target()?;
    let builder = Builder::new(root);
    let guests = builder.discover()?;
    let packages: Vec<&str> = guests.iter().map(|guest| guest.package.as_str()).collect();
    eprintln!("building {} modules", packages.len());
    let modules = builder.build(&packages, &mut |progress| match progress {
        Progress::Waiting => eprintln!("waiting for another build"),
        Progress::Installing(what) => eprintln!("installing: {what}"),
        Progress::Component(built) => eprintln!("{}", built.slot),
        Progress::Compiled { .. } => {}
    })?;
    let program = build_program(root, &mut |built| eprintln!("{built}"))?;
    let release = Release {
        root,
        program: &program,
        modules: &modules,
        target: &target,
        compression: COMPRESSION,
    };
    release.write(&out)
}
