//! Guests for tests.
use crate::{BuildError, Builder, Built};
use std::path::Path;
use std::sync::OnceLock;

/// Returns every guest of this workspace as a component, for tests. Builds them once per process; processes wait
/// for each other.
///
/// # Panics Panics with cargo's message if a guest cannot be built.
#[expect(
    clippy::panic,
    reason = "for tests, which can do nothing without guests"
)]
pub fn guests() -> &'static [Built] {
    static GUESTS: OnceLock<Result<Vec<Built>, BuildError>> = OnceLock::new();
    match GUESTS.get_or_init(build_all) {
        Ok(guests) => guests,
        Err(error) => panic!("no guests to test with: {error}"),
    }
}

/// All method modules, and the provider modules with these names.
///
/// # Panics Like [`guests`].
pub fn guests_with(providers: &[&str]) -> impl Iterator<Item = &'static Built> {
    guests().iter().filter(|built| {
        let provider = built.slot.strip_prefix("provider.");
        provider.is_none_or(|module| providers.contains(&module))
    })
}

/// The guest of a slot such as `method.ideal`, from [`guests`].
///
/// # Panics Like [`guests`], and if no package fills the slot.
#[expect(clippy::panic, reason = "for tests, which name guests that exist")]
pub fn guest(slot: &str) -> &'static Built {
    match guests().iter().find(|guest| guest.slot == slot) {
        Some(guest) => guest,
        None => panic!("no package of this workspace fills the slot {slot}"),
    }
}

fn build_all() -> Result<Vec<Built>, BuildError> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = own.ancestors().nth(2).unwrap_or(own);
    let builder = Builder::new(root);
    let packages: Vec<String> = builder
        .discover()?
        .into_iter()
        .map(|guest| guest.package)
        .collect();
    builder.build(&packages, &mut |_| {})
}
