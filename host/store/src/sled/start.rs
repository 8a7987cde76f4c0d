//! Starting the store: opening its folder, and bringing it to this program's layout first.

use std::sync::Arc;

use kassette_engine::DiskHooks;

use crate::rows::seal::{Sealer, Secrets};
use crate::sled::maintenance::open;
use crate::sled::mark;
use crate::sled::open::{OpenError, OpenOptions};
use crate::sled::store::SledStore;

impl SledStore {
    /// Opens the store in a folder, or makes one. Blocks: it reads the log of what was not yet in
    /// a snapshot.
    ///
    /// # Errors
    /// What stands in the way and what to do about it.
    pub fn open(options: &OpenOptions) -> Result<Arc<Self>, OpenError> {
        mark::check(&options.path)?;
        Self::start(options, DiskHooks::default())
    }

    /// Opens a store with something around the disk.
    pub(crate) fn start(options: &OpenOptions, hooks: DiskHooks) -> Result<Arc<Self>, OpenError> {
        let sealer = Sealer::new(&options.master);
        let (folder, opened, marker) = open(options, &sealer)?;
        Self::on(folder, opened, Secrets { sealer, marker }, hooks)
    }
}
