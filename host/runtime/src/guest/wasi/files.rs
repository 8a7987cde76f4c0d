//! No files: nothing is open, and nothing can be opened.

use wasmtime::component::types::{ComponentInstance, ComponentItem};
use wasmtime::component::{LinkerInstance, Resource, ResourceType};
use wasmtime::{Engine, bail};

use crate::guest::method::MethodState;

/// A file or a folder; there never is one.
struct Descriptor;
/// Likewise.
struct DirectoryEntries;

pub(super) fn preopens(to: &mut LinkerInstance<'_, MethodState>) -> wasmtime::Result<()> {
    to.func_wrap("get-directories", |_, ()| {
        Ok((Vec::<(Resource<Descriptor>, String)>::new(),))
    })
}

/// Every function takes a descriptor, or an error of one: it can be linked, but not be called.
pub(super) fn types(
    to: &mut LinkerInstance<'_, MethodState>,
    engine: &Engine,
    wanted: &ComponentInstance,
) -> wasmtime::Result<()> {
    to.resource("descriptor", ResourceType::host::<Descriptor>(), |_, _| {
        Ok(())
    })?;
    to.resource(
        "directory-entry-stream",
        ResourceType::host::<DirectoryEntries>(),
        |_, _| Ok(()),
    )?;
    for (name, item) in wanted.exports(engine) {
        if matches!(item.ty, ComponentItem::ComponentFunc(_)) {
            to.func_new(name, |_, _, _, _| bail!("a module has no files"))?;
        }
    }
    Ok(())
}
