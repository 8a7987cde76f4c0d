//! Builds components from guest source.
//!
//! [`Builder`] finds a toolchain that compiles to `wasm32-unknown-unknown` (see [`toolchain`]), compiles guest
//! packages and makes each core module a component. Its build settings do not depend on the caller's profiles and
//! RUSTFLAGS, and the same source gives the same bytes in any folder. `dev`, the tests and the integrator's
//! commands all build guests here; no build script runs cargo. [`Release`] packs the components with the program,
//! which finds them with [`bundled`].
//!
//! ```no_run
//! let builder = kassette_build::Builder::new(".");
//! let guests = builder.discover()?;
//! let packages: Vec<&str> = guests.iter().map(|guest| guest.package.as_str()).collect();
//! for built in builder.build(&packages, &mut |_| {})? {
//!     println!("{} {} bytes", built.path.display(), built.bytes);
//! }
//! # Ok::<(), kassette_build::BuildError>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::allow_attributes
    )
)]

mod builder;
mod bundle;
mod cargo;
mod child;
mod component;
mod error;
mod lock;
mod release;
mod slot;
mod testing;
pub mod toolchain;

pub use builder::{Builder, Built, Guest, Progress};
pub use bundle::{BundledModule, bundled};
pub use cargo::program as build_program;
pub use error::BuildError;
pub use release::{Release, host_target};
pub use slot::slot_of;
pub use testing::{guest, guests, guests_with};
