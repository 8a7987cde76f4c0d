//! `kassette migrate`: creates or updates the tables of a database.

use clap::Args;
use kassette_store::postgres;

use super::stopped_store::{StoppedStore, StoreLocation};

#[derive(Args, Debug)]
pub(super) struct MigrateArgs {
    #[command(flatten)]
    store: StoppedStore,
}

/// Creates the tables, or updates them for this release.
///
/// # Errors
/// A sentence with the reason.
#[expect(
    clippy::print_stdout,
    reason = "this is what the person at the terminal reads"
)]
pub(super) async fn migrate(args: MigrateArgs) -> Result<(), String> {
    let (place, serving) = args.store.owned()?;
    match place {
        StoreLocation::Folder(options) => println!(
            "the store is in {}: the next start brings it to this release's form by itself",
            options.path.display()
        ),
        StoreLocation::Database(options) => {
            let migrated = postgres::migrate(&options).await;
            migrated.map_err(|error| error.to_string())?;
            if let Some(serving) = serving {
                let granted = postgres::grant(&options, serving.expose()).await;
                granted.map_err(|error| error.to_string())?;
            }
            println!("the database has the tables of this release");
        }
    }
    Ok(())
}
