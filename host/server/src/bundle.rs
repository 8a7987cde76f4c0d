//! Modules that are bundled with the program by the release command.

use std::collections::BTreeMap;
use std::path::Path;

use kassette_domain::id::Slot;

use crate::compiler::OWN_PROGRAM;

/// The bundled modules by slot. Empty in a program that was built with plain cargo.
///
/// # Errors
/// A sentence if the program cannot be read or is damaged.
pub(crate) fn modules() -> Result<BTreeMap<Slot, Vec<u8>>, String> {
    let modules = kassette_build::bundled(Path::new(OWN_PROGRAM)).map_err(|error| {
        format!("the modules that this program brings along cannot be read: {error}; install the release again")
    })?;
    let by_slot = modules
        .into_iter()
        .filter_map(|module| Some((Slot::parse(&module.slot)?, module.bytes)));
    Ok(by_slot.collect())
}
