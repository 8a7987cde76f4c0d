//! A file system without files: no descriptor exists or can be opened.

use wasmtime::component::types::{ComponentInstance, ComponentItem};
use wasmtime::component::{LinkerInstance, Resource, ResourceType};
use wasmtime::{Engine, bail};

use crate::guest::method::MethodState;

/// A file or folder. Never created.
struct Descriptor;
/// Never created.
struct DirectoryEntries;

pub(super) fn preopens(to: &mut LinkerInstance<'_, MethodState>) -> wasmtime::Result<()> {
    to.func_wrap("get-directories", |_, ()| {
        Ok((Vec::<(Resource<Descriptor>, String)>::new(),))
    })
}

/// Links every function. All of them take a descriptor or its error, so none can be called.
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
